"""HTML of stores, figures and reports in notebooks."""
