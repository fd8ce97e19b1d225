"""What is asked, and what is made of the answer."""
