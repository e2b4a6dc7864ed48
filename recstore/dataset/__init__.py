"""share_dataset and audit: finding what a dataset holds and replacing it by shared stores."""
