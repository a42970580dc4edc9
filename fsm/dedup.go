package fsm

import (
	"encoding/binary"

	"github.com/tidwall/btree"
)

// claim is a remembered key: which message it stands for, and since when.
type claim struct {
	key     Fingerprint
	message uint64
	atMs    int64
}

func (c claim) digest() uint64 {
	return uint64(digest(2).word(binary.BigEndian.Uint64(c.key[:8])).word(binary.BigEndian.Uint64(c.key[8:])).
		word(c.message).word(uint64(c.atMs)))
}

// claims are the keys that a queue remembers. All windows of a queue are equal,
// so that claims expire in the order in which they were made.
type claims struct {
	byKey *btree.BTreeG[claim]
	order keyLog
	// oldestMs and newestMs are when the front and the back of order were claimed.
	oldestMs, newestMs int64
	content            uint64 // sum of the claims' digests
}

func newClaims() claims {
	return claims{byKey: newTree(lessClaim), order: newKeyLog()}
}

func lessClaim(a, b claim) bool { return lessKey(a.key, b.key) }

func lessKey(a, b Fingerprint) bool {
	x, y := binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(b[:8])
	if x != y {
		return x < y
	}
	return binary.BigEndian.Uint64(a[8:]) < binary.BigEndian.Uint64(b[8:])
}

func (c *claims) copy() claims {
	d := *c
	d.byKey, d.order = c.byKey.Copy(), c.order.copy()
	return d
}

func (c *claims) len() int { return c.byKey.Len() }

func (c *claims) get(key Fingerprint) (claim, bool) { return c.byKey.Get(claim{key: key}) }

func (c *claims) add(x claim) {
	if c.len() == 0 {
		c.oldestMs = x.atMs
	}
	c.newestMs = x.atMs
	c.byKey.Set(x)
	c.order.push(x.key)
	c.content += x.digest()
}

// pop forgets the oldest claim.
func (c *claims) pop() claim {
	x, _ := c.byKey.Delete(claim{key: c.order.pop()})
	if c.len() > 0 {
		front, _ := c.get(c.order.front())
		c.oldestMs = front.atMs
	}
	c.content -= x.digest()
	return x
}

// all yields the claims in the order in which they were made.
func (c *claims) all(yield func(claim) bool) {
	for key := range c.order.all {
		x, _ := c.get(key)
		if !yield(x) {
			return
		}
	}
}

// keyLog is a first-in-first-out list of keys in chunks, 16 bytes a key. A copy
// shares the chunks: what it reads lies before its own tail, and only the
// original may push.
type keyLog struct {
	chunks     *btree.Map[uint64, *keyChunk]
	last       *keyChunk
	head, tail uint64
}

type keyChunk [256]Fingerprint

const chunkKeys = uint64(len(keyChunk{}))

func newKeyLog() keyLog { return keyLog{chunks: new(btree.Map[uint64, *keyChunk])} }

func (l *keyLog) copy() keyLog {
	return keyLog{chunks: l.chunks.Copy(), last: l.last, head: l.head, tail: l.tail}
}

func (l *keyLog) push(key Fingerprint) {
	if l.tail%chunkKeys == 0 {
		l.last = new(keyChunk)
		l.chunks.Set(l.tail/chunkKeys, l.last)
	}
	l.last[l.tail%chunkKeys] = key
	l.tail++
}

func (l *keyLog) front() Fingerprint {
	_, chunk, _ := l.chunks.Min()
	return chunk[l.head%chunkKeys]
}

func (l *keyLog) pop() Fingerprint {
	key := l.front()
	l.head++
	if l.head%chunkKeys == 0 {
		l.chunks.PopMin()
	}
	return key
}

func (l *keyLog) all(yield func(Fingerprint) bool) {
	at := l.head
	l.chunks.Scan(func(_ uint64, chunk *keyChunk) bool {
		for end := min(l.tail, at-at%chunkKeys+chunkKeys); at < end; at++ {
			if !yield(chunk[at%chunkKeys]) {
				return false
			}
		}
		return true
	})
}
