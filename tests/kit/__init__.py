"""What tests are built with: small builders and pretend parts. No test stands here."""
