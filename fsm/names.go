package fsm

// MaxNameBytes is the longest name of a spool or a queue.
const MaxNameBytes = 128

// DefaultSpool is the spool that always exists.
const DefaultSpool = "default"

// ValidName reports whether s can name a spool or a queue: 1 to 128 characters
// of A-Z a-z 0-9 _ : -.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxNameBytes {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
