"""What people ask and order of a cluster, in the terminal: words and JSON. What is asked is in controller.desk."""
