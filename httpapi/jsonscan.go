package httpapi

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonScan reads a text that is known to be valid JSON, value by value and
// without copying it. encoding/json would fold the case of names, take the last of
// a repeated member, and replace in a string what is no text.
type jsonScan struct {
	text string
	at   int
}

// next skips what is between values and returns the byte that follows.
func (s *jsonScan) next() byte {
	for {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			s.at++
		default:
			return c
		}
	}
}

// open enters an object or an array. It reports false, and stays, at any other
// value.
func (s *jsonScan) open(bracket byte) bool {
	if s.next() != bracket {
		return false
	}
	s.at++
	return true
}

// more reports whether there is another member or element; else it leaves the
// object or array.
func (s *jsonScan) more() bool {
	if c := s.next(); c != '}' && c != ']' {
		return true
	}
	s.at++
	return false
}

// value returns the next value as it is written.
func (s *jsonScan) value() string {
	s.next()
	start, depth := s.at, 0
	for {
		switch s.text[s.at] {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case ',', ':', ' ', '\t', '\n', '\r':
			s.at++ // inside of a value, as its end is looked for below
		default:
			s.skipWord()
		}
		if depth == 0 {
			return s.text[start:s.at]
		}
	}
}

func (s *jsonScan) skipString() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// skipWord skips a number, true, false or null.
func (s *jsonScan) skipWord() {
	for s.at < len(s.text) && strings.IndexByte(",:}] \t\n\r", s.text[s.at]) < 0 {
		s.at++
	}
}

// jsonText returns the string that a value stands for. It is not ok where the
// value is no string or the string is no text: what is not UTF-8, and half of a
// surrogate pair, would not come out as they went in.
func jsonText(value string) (text string, ok bool) {
	if value[0] != '"' {
		return "", false
	}
	text = value[1 : len(value)-1]
	if strings.IndexByte(text, '\\') >= 0 {
		if text, ok = unescape(text); !ok {
			return "", false
		}
	}
	return text, utf8.ValidString(text)
}

func unescape(text string) (string, bool) {
	var b strings.Builder
	b.Grow(len(text))
	for {
		plain, rest, found := strings.Cut(text, `\`)
		b.WriteString(plain)
		if !found {
			return b.String(), true
		}
		if rest[0] != 'u' {
			b.WriteByte(unescapeByte(rest[0]))
			text = rest[1:]
			continue
		}
		r := hexRune(rest[1:5])
		text = rest[5:]
		if utf16.IsSurrogate(r) {
			if !strings.HasPrefix(text, `\u`) {
				return "", false
			}
			if r = utf16.DecodeRune(r, hexRune(text[2:6])); r == utf8.RuneError {
				return "", false
			}
			text = text[6:]
		}
		b.WriteRune(r)
	}
}

func unescapeByte(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}

func hexRune(digits string) rune {
	n, _ := strconv.ParseUint(digits, 16, 16)
	return rune(n)
}

// appendJSONText appends valid UTF-8 as a JSON string.
func appendJSONText(dst []byte, text string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, text[start:]...), '"')
}
