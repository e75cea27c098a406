"""What is done for blocked heads and for those whose guard has run out: claims are made, others give way."""
