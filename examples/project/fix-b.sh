#!/bin/sh
# All six pairs.
sed -i -e 's/(500, "D")/(900, "CM"), (500, "D"), (400, "CD")/' -e 's/(50, "L")/(90, "XC"), (50, "L"), (40, "XL")/' -e 's/(5, "V")/(9, "IX"), (5, "V"), (4, "IV")/' roman.py
