"""share_dataset and audit: both find the large values of a dataset; share_dataset moves them to shared memory."""
