"""What there is to show: the report document and its parts, made once and handed to every renderer."""
