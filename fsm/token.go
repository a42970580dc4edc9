package fsm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// Fingerprint is what the machine remembers of a dedup key: the first 16 bytes
// of its SHA-256.
type Fingerprint [16]byte

// FingerprintOf returns the fingerprint of a dedup string.
func FingerprintOf(key string) Fingerprint {
	sum := sha256.Sum256([]byte(key))
	return Fingerprint(sum[:16])
}

// TokenSort tells leases from handles.
type TokenSort uint8

// The sorts. Numbers are part of the token format.
const (
	Lease  TokenSort = 1
	Handle TokenSort = 2
)

// Token names a message as it is after a number of moves. A lease names a
// delivery, a handle any state; both go stale with the next move.
type Token struct {
	Sort    TokenSort
	Moves   uint32
	Queue   uint64
	Message uint64
}

// ErrInvalidToken says that a string is no token of this cluster, or one of
// another sort.
var ErrInvalidToken = errors.New("invalid token")

const (
	tokenMACBytes = 12
	maxTokenBytes = 1 + 10 + 10 + 5 + tokenMACBytes
)

var tokenEncoding = base64.RawURLEncoding.Strict()

// Sealer turns tokens into opaque strings and back. The strings carry a
// truncated HMAC-SHA256 under the cluster's secret, so that nobody can make or
// alter one.
type Sealer struct{ secret Secret }

// Seal returns the string form of t.
func (s Sealer) Seal(t Token) string {
	var buf [maxTokenBytes]byte
	b := append(buf[:0], byte(t.Sort))
	b = binary.AppendUvarint(b, t.Queue)
	b = binary.AppendUvarint(b, t.Message)
	b = binary.AppendUvarint(b, uint64(t.Moves))
	mac := s.mac(b)
	return tokenEncoding.EncodeToString(append(b, mac[:tokenMACBytes]...))
}

// Open returns the token that text stands for, or [ErrInvalidToken] where it
// is none of this cluster or not of the sort wanted.
func (s Sealer) Open(sort TokenSort, text string) (Token, error) {
	if len(text) > tokenEncoding.EncodedLen(maxTokenBytes) {
		return Token{}, ErrInvalidToken
	}
	b, err := tokenEncoding.DecodeString(text)
	if err != nil || len(b) <= tokenMACBytes || b[0] != byte(sort) {
		return Token{}, ErrInvalidToken
	}
	body, got := b[:len(b)-tokenMACBytes], b[len(b)-tokenMACBytes:]
	want := s.mac(body)
	if !hmac.Equal(got, want[:tokenMACBytes]) {
		return Token{}, ErrInvalidToken
	}
	d := decoder{b: body[1:]}
	t := Token{Sort: sort, Queue: d.uvarint(), Message: d.uvarint(), Moves: d.uint32()}
	if d.end() != nil {
		return Token{}, ErrInvalidToken
	}
	return t, nil
}

func (s Sealer) mac(body []byte) [sha256.Size]byte {
	h := hmac.New(sha256.New, s.secret[:])
	h.Write(body)
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}
