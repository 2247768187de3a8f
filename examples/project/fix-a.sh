#!/bin/sh
# Only some of the pairs.
sed -i 's/(5, "V")/(9, "IX"), (5, "V"), (4, "IV")/' roman.py
