"""What the tests of the desk share is in people.py."""
