"""The console's pages, one module for each subject: what a page shows, and the actions on it."""
