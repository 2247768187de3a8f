#!/bin/sh
# Another way: replaces four letters in a row afterwards.
sed -i 's/    return text/    for long, short in [("DCCCC", "CM"), ("CCCC", "CD"), ("LXXXX", "XC"), ("XXXX", "XL"), ("VIIII", "IX"), ("IIII", "IV")]:\n        text = text.replace(long, short)\n    return text/' roman.py
