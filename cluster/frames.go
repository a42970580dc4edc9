package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/spoolraft/spoolraft/fsm"
)

// Peers exchange frames over links: a length, a type, the number of the request
// that it belongs to, and a payload. The dialer asks, the acceptor answers.

type frameType uint8

const (
	framePropose    frameType = 1 // commands -> frameResults, one or more
	frameResults    frameType = 2
	frameRead       frameType = 3 // a query -> frameAnswer
	frameAnswer     frameType = 4
	frameWait       frameType = 5 // a spool and a queue -> frameWoken, once
	frameWoken      frameType = 6
	frameForget     frameType = 7 // ends the wait, or the turn after it; no answer
	frameConfirm    frameType = 8 // a term -> frameConfirmed
	frameTerm       frameType = 9
	framePing       frameType = 10 // a vitals -> framePong
	framePong       frameType = 11
	frameJoin       frameType = 12 // an application -> frameJoinAnswer
	frameJoinAnswer frameType = 13
)

const (
	frameHeadBytes  = 4 + 1 + 8
	maxFrameBytes   = fsm.MaxPayloadBytes + 4<<20 // a forwarded batch is one payload at least
	frameChunkBytes = 1 << 20                     // read at a time, so that a length is only a claim
)

var errBadFrame = errors.New("a peer sent something that is not a frame")

type frame struct {
	typ     frameType
	id      uint64
	payload []byte
}

// appendHead appends all of the frame but its payload.
func (f *frame) appendHead(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(frameHeadBytes-4+len(f.payload)))
	dst = append(dst, byte(f.typ))
	return binary.BigEndian.AppendUint64(dst, f.id)
}

// readFrame reads one frame. It allocates no more than about what arrives.
func readFrame(r io.Reader) (f frame, err error) {
	var head [frameHeadBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	n := int64(binary.BigEndian.Uint32(head[:])) - (frameHeadBytes - 4)
	f.typ, f.id = frameType(head[4]), binary.BigEndian.Uint64(head[5:])
	if n < 0 || n > maxFrameBytes || f.typ < framePropose || f.typ > frameJoinAnswer {
		return f, errBadFrame
	}
	for int64(len(f.payload)) < n {
		have := len(f.payload)
		f.payload = append(f.payload, make([]byte, min(n-int64(have), frameChunkBytes))...)
		if _, err := io.ReadFull(r, f.payload[have:]); err != nil {
			return f, err
		}
	}
	return f, nil
}

// outcome is what became of one command.
type outcome struct {
	result fsm.Result
	err    error
}

// appendResults encodes the outcomes of the commands from number first on: the
// codes, then the results of those that have one.
func appendResults(dst []byte, first int, outs []outcome) []byte {
	dst = binary.AppendUvarint(dst, uint64(first))
	dst = binary.AppendUvarint(dst, uint64(len(outs)))
	for i := range outs {
		dst = append(dst, byte(codeOf(outs[i].err)))
	}
	for i := range outs {
		if outs[i].err == nil {
			dst = fsm.AppendResult(dst, &outs[i].result)
		}
	}
	return dst
}

func decodeResults(data []byte) (first int, outs []outcome, err error) {
	start, n := binary.Uvarint(data)
	if n <= 0 || start > fsm.MaxBatchCommands {
		return 0, nil, errBadFrame
	}
	data = data[n:]
	count, n := binary.Uvarint(data)
	if n <= 0 || count > uint64(len(data)-n) {
		return 0, nil, errBadFrame
	}
	codes, data := data[n:n+int(count)], data[n+int(count):]
	outs = make([]outcome, count)
	with := 0
	for i, c := range codes {
		if outs[i].err = outcomeCode(c).err(); outs[i].err == nil {
			with++
		}
	}
	results, err := fsm.DecodeResults(data, with)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errBadFrame, err)
	}
	for i := range outs {
		if outs[i].err == nil {
			outs[i].result, results = results[0], results[1:]
		}
	}
	return int(start), outs, nil
}

// splitResults cuts outcomes into frames of about a chunk each, since receives
// can answer with far more bytes than they ask with.
func splitResults(outs []outcome, yield func(first int, part []outcome)) {
	first, size := 0, 0
	for i := range outs {
		size += 64 + len(outs[i].result.Payload)
		if size >= frameChunkBytes || i == len(outs)-1 {
			yield(first, outs[first:i+1])
			first, size = i+1, 0
		}
	}
}

func appendNames(dst []byte, names ...string) []byte {
	for _, s := range names {
		dst = append(append(dst, byte(len(s))), s...)
	}
	return dst
}

// decodeNames reads two valid names and nothing else.
func decodeNames(data []byte) (spool, queue string, err error) {
	var names [2]string
	for i := range names {
		if len(data) == 0 || len(data) < 1+int(data[0]) {
			return "", "", errBadFrame
		}
		names[i], data = string(data[1:1+int(data[0])]), data[1+int(data[0]):]
		if !fsm.ValidName(names[i]) {
			return "", "", errBadFrame
		}
	}
	if len(data) > 0 {
		return "", "", errBadFrame
	}
	return names[0], names[1], nil
}

func decodeUint64(data []byte) (uint64, error) {
	if len(data) != 8 {
		return 0, errBadFrame
	}
	return binary.BigEndian.Uint64(data), nil
}
