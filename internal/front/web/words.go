package web

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordClass is the class of words that changed.
const wordClass = "word"

// markWords splits rows of a hunk into parts, as long as there is room for their bytes
// in the page. Of lines that were replaced one by one, the words that differ are
// marked. It returns how many rows have parts, and their bytes.
func markWords(rows []row, room int) (n, bytes int) {
	for n < len(rows) {
		gone, added, end := block(rows, n)
		markPairs(gone, added, room)
		for end = max(end, n+1); n < end; n++ { // a line that stays is no block
			if bytes >= room {
				return n, bytes
			}
			if rows[n].Parts == nil {
				rows[n].Parts = rows[n].plain()
			}
			bytes += rows[n].bytes()
		}
	}
	return n, bytes
}

// markPairs marks the words that differ in lines that were replaced one by one.
func markPairs(gone, added []row, room int) {
	for k := range gone {
		if len(gone) != len(added) || room <= 0 {
			return
		}
		gone[k].Parts, added[k].Parts = changedWords(gone[k], added[k])
		room -= gone[k].bytes() + added[k].bytes()
	}
}

// changedWords returns the parts of two lines, with the words between what they have
// in common at both ends marked. Lines that have little in common get no marks.
func changedWords(gone, added row) (a, b []part) {
	old, now := gone.text, added.text
	if len(old) > maxLine || len(now) > maxLine {
		return gone.plain(), added.plain()
	}
	head := commonHead(old, now)
	tail := commonTail(old[head:], now[head:])
	if (head+tail)*3 < max(len(old), len(now)) {
		return gone.plain(), added.plain()
	}
	return gone.markedParts(head, tail), added.markedParts(head, tail)
}

// plain returns the parts of a line without marks.
func (r row) plain() []part { return coloured(nil, r.text, 0, len(r.text), r.spans, "") }

func (r row) markedParts(head, tail int) []part {
	end := len(r.text) - tail
	parts := coloured(nil, r.text, 0, head, r.spans, "")
	parts = coloured(parts, r.text, head, end, r.spans, wordClass)
	return coloured(parts, r.text, end, len(r.text), r.spans, "")
}

// commonHead returns the length of the words that two lines begin with.
func commonHead(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && (inWord(a, n) || inWord(b, n)) {
		n--
	}
	return n
}

// commonTail returns the length of the words that two lines end with.
func commonTail(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	for n > 0 && (inWord(a, len(a)-n) || inWord(b, len(b)-n)) {
		n--
	}
	return n
}

// inWord reports whether a place is inside of a word or of a character.
func inWord(s string, at int) bool {
	if at <= 0 || at >= len(s) {
		return false
	}
	if !utf8.RuneStart(s[at]) {
		return true
	}
	before, _ := utf8.DecodeLastRuneInString(s[:at])
	after, _ := utf8.DecodeRuneInString(s[at:])
	return isWordRune(before) && isWordRune(after)
}

func isWordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// withoutSpace turns lines that differ only in white space into lines that stay.
func withoutSpace(rows []row) []row {
	var out []row
	for i := 0; i < len(rows); {
		if rows[i].Kind == " " {
			out = append(out, rows[i])
			i++
			continue
		}
		gone, added, next := block(rows, i)
		if len(gone) != len(added) {
			out = append(out, rows[i:next]...)
			i = next
			continue
		}
		for k := range gone {
			if squeeze(gone[k].text) == squeeze(added[k].text) {
				same := added[k]
				same.Kind, same.Old = " ", gone[k].Old
				out = append(out, same)
			} else {
				out = append(out, gone[k], added[k])
			}
		}
		i = next
	}
	return out
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }
