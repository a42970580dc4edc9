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
	framePropose    frameType = 1 // a proposal -> frameResults, one or more
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

	frameAdmin       frameType = 14 // an adminRequest -> frameAdminAnswer
	frameAdminAnswer frameType = 15

	lastFrameType = frameAdminAnswer
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
	if n < 0 || n > maxFrameBytes || f.typ < framePropose || f.typ > lastFrameType {
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

// appendProposal encodes the commands that a follower forwards. Before them stand
// the calls that they belong to, as runs: how many, and the number of the call.
func appendProposal(dst []byte, items []*item) []byte {
	cmds := make([]fsm.Command, len(items))
	size := 0
	for n, i := range items {
		cmds[n] = *i.cmd
		size += i.bytes() + itemOverheadBytes
	}
	if dst == nil {
		dst = make([]byte, 0, size)
	}
	for first := 0; first < len(items); {
		end := first + 1
		for end < len(items) && items[end].call.number == items[first].call.number {
			end++
		}
		dst = binary.AppendUvarint(dst, uint64(end-first))
		dst = binary.AppendUvarint(dst, items[first].call.number)
		first = end
	}
	dst = append(dst, 0)
	return fsm.AppendCommands(dst, cmds)
}

// callRun is so many commands of one call.
type callRun struct{ commands, call uint64 }

func decodeProposal(data []byte) (runs []callRun, cmds []fsm.Command, err error) {
	total := uint64(0)
	for {
		commands, n := binary.Uvarint(data)
		if n <= 0 || commands > fsm.MaxBatchCommands {
			return nil, nil, errBadFrame
		}
		if data = data[n:]; commands == 0 {
			break
		}
		call, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, nil, errBadFrame
		}
		data = data[n:]
		total += commands
		runs = append(runs, callRun{commands, call})
	}
	cmds, err = fsm.DecodeCommands(data)
	if err == nil && (uint64(len(cmds)) != total || total == 0) {
		err = errBadFrame
	}
	return runs, cmds, err
}

// appendResults encodes the outcomes of the commands from number first on: the
// codes, then the results of those that have one.
func appendResults(dst []byte, first int, outs []fsm.Outcome) []byte {
	dst = binary.AppendUvarint(dst, uint64(first))
	dst = binary.AppendUvarint(dst, uint64(len(outs)))
	for i := range outs {
		dst = append(dst, byte(codeOf(outs[i].Err)))
	}
	for i := range outs {
		if outs[i].Err == nil {
			dst = fsm.AppendResult(dst, &outs[i].Result)
		}
	}
	return dst
}

func decodeResults(data []byte) (first int, outs []fsm.Outcome, err error) {
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
	outs = make([]fsm.Outcome, count)
	with := 0
	for i, c := range codes {
		if outs[i].Err = outcomeCode(c).err(); outs[i].Err == nil {
			with++
		}
	}
	results, err := fsm.DecodeResults(data, with)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errBadFrame, err)
	}
	for i := range outs {
		if outs[i].Err == nil {
			outs[i].Result, results = results[0], results[1:]
		}
	}
	return int(start), outs, nil
}

// splitResults cuts outcomes into frames of about a chunk each, since receives
// can answer with far more bytes than they ask with.
func splitResults(outs []fsm.Outcome, yield func(first int, part []fsm.Outcome)) {
	first, size := 0, 0
	for i := range outs {
		size += resultBytes(&outs[i].Result)
		if size >= frameChunkBytes || i == len(outs)-1 {
			yield(first, outs[first:i+1])
			first, size = i+1, 0
		}
	}
}

// resultBytes is about what a result takes in a frame.
func resultBytes(r *fsm.Result) int {
	size := 64 + len(r.Payload)
	for i := range r.Deliveries {
		size += 64 + len(r.Deliveries[i].Payload)
	}
	return size
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
