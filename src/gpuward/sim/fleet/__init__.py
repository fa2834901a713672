"""A pretend fleet: servers with the truth about each GPU, on the pretend cluster, under the loops of the product."""
