package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/spoolraft/spoolraft/fsm"
)

// Version is the newest format version. All from 1 are read; what is written has
// the lowest that can hold it.
const Version = 2

// versionOf is the lowest version that holds the machine. Version 2 came with
// documents and their claims: without any, nodes of a version before can read
// what is written.
func versionOf(h fsm.HeaderRecord) uint32 {
	if h.Revision == 0 {
		return 1
	}
	return 2
}

// BlockBytes bounds a block's payload, unless the block is one large record.
const BlockBytes = 128 << 10

const (
	magic         = "SPOOLSNP"
	preambleBytes = len(magic) + 4 + 4 // magic, version, checksum
	frameBytes    = 1 + 4 + 4          // kind, length, checksum

	maxRecordBytes  = 512 // of any record, without a message's payload
	maxPayloadBytes = fsm.MaxPayloadBytes + maxRecordBytes
)

// The kinds of blocks. Numbers are part of the format.
const (
	blockHeader  = 1
	blockRecords = 2
	blockEnd     = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockSum continues the checksum of the block before, so that a block that is
// missing, repeated or out of place does not fit.
func blockSum(previous uint32, frame, payload []byte) uint32 {
	sum := crc32.Update(previous, castagnoli, frame[:5])
	return crc32.Update(sum, castagnoli, payload)
}

// blockWriter collects records into blocks. The first failure stays in err and
// nothing is written after it.
type blockWriter struct {
	w   io.Writer
	buf []byte // room for the frame, then the payload
	sum uint32
	err error
}

func newBlockWriter(w io.Writer, version uint32) *blockWriter {
	b := &blockWriter{w: w}
	b.buf = binary.LittleEndian.AppendUint32([]byte(magic), version)
	b.sum = crc32.Checksum(b.buf, castagnoli)
	b.buf = binary.LittleEndian.AppendUint32(b.buf, b.sum)
	b.write()
	return b
}

// room makes place for a record with a payload of n bytes, by writing the
// block of records so far where the two together would be too large.
func (b *blockWriter) room(n int) {
	n += maxRecordBytes
	if used := len(b.buf) - frameBytes; used > 0 && used+n > BlockBytes {
		b.flush(blockRecords)
	}
	b.buf = slices.Grow(b.buf, n)
}

// flush writes what was collected as one block. An empty one is left out.
func (b *blockWriter) flush(kind byte) {
	payload := b.buf[frameBytes:]
	if len(payload) == 0 {
		return
	}
	b.buf[0] = kind
	binary.LittleEndian.PutUint32(b.buf[1:], uint32(len(payload)))
	b.sum = blockSum(b.sum, b.buf, payload)
	binary.LittleEndian.PutUint32(b.buf[5:], b.sum)
	b.write()
}

func (b *blockWriter) write() {
	if b.err == nil {
		_, b.err = b.w.Write(b.buf)
	}
	if cap(b.buf) < BlockBytes || cap(b.buf) > 2*BlockBytes {
		b.buf = make([]byte, frameBytes, frameBytes+BlockBytes)
	}
	b.buf = b.buf[:frameBytes]
}

// blockReader reads blocks one after the other.
type blockReader struct {
	r     *bufio.Reader
	start int64 // where the current block begins
	read  int64
	buf   []byte
	sum   uint32

	version uint32
}

func (b *blockReader) damaged(format string, args ...any) error {
	return &DamagedError{Offset: b.start, What: fmt.Sprintf(format, args...)}
}

// fill reads n bytes into buf, growing it only as they arrive.
func (b *blockReader) fill(n int) error {
	b.buf = b.buf[:0]
	for len(b.buf) < n {
		step := min(n-len(b.buf), max(len(b.buf), BlockBytes))
		b.buf = slices.Grow(b.buf, step)
		got, err := io.ReadFull(b.r, b.buf[len(b.buf):len(b.buf)+step])
		b.buf = b.buf[:len(b.buf)+got]
		b.read += int64(got)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return b.damaged("it is cut short after %d bytes", b.read)
		}
		if err != nil {
			return fmt.Errorf("read the snapshot at byte %d: %w", b.read, err)
		}
	}
	return nil
}

func (b *blockReader) preamble() error {
	if err := b.fill(preambleBytes); err != nil {
		return err
	}
	if string(b.buf[:len(magic)]) != magic {
		return b.damaged("it does not begin as a snapshot does")
	}
	covered := b.buf[:preambleBytes-4]
	b.sum = crc32.Checksum(covered, castagnoli)
	if binary.LittleEndian.Uint32(b.buf[len(covered):]) != b.sum {
		return b.damaged("the checksum of its beginning does not match")
	}
	if b.version = binary.LittleEndian.Uint32(b.buf[len(magic):]); b.version < 1 || b.version > Version {
		return &VersionError{Version: b.version}
	}
	return nil
}

// next returns the next block, whose payload is valid until the call after.
func (b *blockReader) next() (kind byte, payload []byte, err error) {
	b.start = b.read
	if err := b.fill(frameBytes); err != nil {
		return 0, nil, err
	}
	frame := [frameBytes]byte(b.buf)
	n := binary.LittleEndian.Uint32(frame[1:])
	if n == 0 || n > maxPayloadBytes {
		return 0, nil, b.damaged("a block says that it has %d bytes, and 1 to %d are possible", n, maxPayloadBytes)
	}
	if cap(b.buf) > 4*BlockBytes {
		b.buf = nil // that of one large message
	}
	if err := b.fill(int(n)); err != nil {
		return 0, nil, err
	}
	b.sum = blockSum(b.sum, frame[:], b.buf)
	if binary.LittleEndian.Uint32(frame[5:]) != b.sum {
		return 0, nil, b.damaged("the checksum of the block does not match")
	}
	return frame[0], b.buf, nil
}

// end expects that nothing follows.
func (b *blockReader) end() error {
	b.start = b.read
	switch _, err := b.r.ReadByte(); {
	case err == nil:
		return b.damaged("bytes follow after its end")
	case errors.Is(err, io.EOF):
		return nil
	default:
		return fmt.Errorf("read the snapshot at byte %d: %w", b.read, err)
	}
}
