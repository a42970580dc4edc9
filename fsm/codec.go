package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits of the log format. Decoding refuses what is beyond them, so that
// hostile bytes cannot make a node allocate more than they are long.
const (
	MaxPayloadBytes  = 32 << 20 // whatever a server is configured to allow; fits an entry of every log store
	MaxBatchCommands = 1 << 16

	maxTimeMs         = 1 << 50 // far from overflow in any unit used
	maxClusterIDBytes = 64
	maxUIDBytes       = 64
)

// ErrMalformed says that bytes are not what their decoder expects.
var ErrMalformed = errors.New("malformed")

// UnknownOpError says that a batch carries a command of a later version. The
// node that meets one in its log must stop.
type UnknownOpError struct{ Op Op }

func (e UnknownOpError) Error() string {
	return fmt.Sprintf("the log holds command %d, which this version does not know: run the version that wrote it", e.Op)
}

// decoder reads the primitives of the log format. After the first failure it
// reads zeros; the failure shows in err and end.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = ErrMalformed
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) bool() bool {
	c := d.byte()
	if c > 1 {
		d.fail()
	}
	return c == 1
}

// uvarint accepts the shortest encoding only, so that equal values have equal
// bytes.
func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || (n > 1 && d.b[n-1] == 0) {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > 1<<32-1 {
		d.fail()
		return 0
	}
	return uint32(v)
}

// int63 reads a non-negative number that fits an int64.
func (d *decoder) int63() int64 {
	v := d.uvarint()
	if v > 1<<63-1 {
		d.fail()
		return 0
	}
	return int64(v)
}

func (d *decoder) timeMs() int64 {
	v := d.int63()
	if v > maxTimeMs {
		d.fail()
		return 0
	}
	return v
}

// fixed returns the next n bytes, not copied.
func (d *decoder) fixed(n int) []byte {
	if n > len(d.b) {
		d.fail()
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) string(maxBytes int) string {
	n := d.uvarint()
	if n > uint64(maxBytes) {
		d.fail()
		return ""
	}
	return string(d.fixed(int(n)))
}

// end returns the failure, which includes bytes left over.
func (d *decoder) end() error {
	if len(d.b) > 0 {
		d.fail()
	}
	return d.err
}
