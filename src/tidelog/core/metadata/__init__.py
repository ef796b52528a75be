"""What the controller decides: from a request and the image to records, and their replay."""
