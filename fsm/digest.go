package fsm

import "hash/crc32"

// digest is a running 64-bit hash of words and texts, the same on every
// machine. It finds divergence and damage; it does not resist an attacker.
type digest uint64

func (h digest) word(w uint64) digest {
	x := (uint64(h) ^ w) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return digest(x ^ x>>32)
}

func (h digest) text(s string) digest {
	h = h.word(uint64(len(s)))
	for len(s) > 0 {
		var w uint64
		n := min(8, len(s))
		for i := range n {
			w |= uint64(s[i]) << (8 * i)
		}
		h, s = h.word(w), s[n:]
	}
	return h
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(payload string) uint32 { return crc32.Checksum([]byte(payload), castagnoli) }
