"""What plugins of a Job add to its pods, and make beside them."""
