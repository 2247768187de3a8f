"""The client. It is generated from _async."""
