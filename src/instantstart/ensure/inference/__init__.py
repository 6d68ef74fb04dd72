"""What serves models: servers, endpoints, pools, what routes to them and scales them, and why one does not answer."""
