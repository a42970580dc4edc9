package snapshot

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spoolraft/spoolraft/fsm"
)

// Write writes the machine that img holds. Without an error, everything has
// been handed to w; flushing it to disk is the caller's.
func Write(w io.Writer, img *fsm.Image) error {
	header := img.Header()
	version := versionOf(header)
	out := newBlockWriter(w, version)
	out.buf = appendHeader(out.buf, header, version)
	out.flush(blockHeader)

	var n counts
	for s := range img.Spools() {
		out.room(0)
		out.buf = appendSpool(out.buf, s)
		n.spools++
	}
	for q := range img.Queues() {
		writeQueue(out, q, &n)
		if out.err != nil {
			break
		}
	}
	writeDocuments(out, img, &n)
	out.flush(blockRecords)

	out.buf = appendEnd(out.buf, n, version)
	out.flush(blockEnd)
	if out.err != nil {
		return fmt.Errorf("write the snapshot: %w", out.err)
	}
	return nil
}

func writeQueue(out *blockWriter, q fsm.SavedQueue, n *counts) {
	out.room(0)
	out.buf = appendQueue(out.buf, q.Record())
	n.queues++
	for m := range q.Messages() {
		out.room(len(m.Payload))
		out.buf = appendMessage(out.buf, m)
		n.messages++
		if out.err != nil {
			return
		}
	}
	for c := range q.Claims() {
		out.room(0)
		out.buf = appendClaim(out.buf, c)
		n.claims++
		if out.err != nil {
			return
		}
	}
}

func writeDocuments(out *blockWriter, img *fsm.Image, n *counts) {
	for ch := range img.Channels() {
		record := ch.Record()
		out.room(len(record.Document))
		out.buf = appendChannel(out.buf, record)
		n.channels++
		for c := range ch.Claims() {
			out.room(0)
			out.buf = appendChannelClaim(out.buf, c)
			n.channelClaims++
			if out.err != nil {
				return
			}
		}
	}
	for d := range img.Connectors() {
		out.room(len(d.Document))
		out.buf = appendConnector(out.buf, d)
		n.connectors++
	}
}

// Read makes a new machine of what [Write] wrote, to the end of r. The error is
// a [*DamagedError], a [*VersionError] or one of r.
func Read(r io.Reader) (*fsm.Machine, error) {
	in := &blockReader{r: bufio.NewReaderSize(r, 64<<10)}
	if err := in.preamble(); err != nil {
		return nil, err
	}
	to, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	for {
		kind, payload, err := in.next()
		if err != nil {
			return nil, err
		}
		switch kind {
		case blockRecords:
			if err := to.records(payload); err != nil {
				return nil, in.damaged("%v", err)
			}
		case blockEnd:
			return finish(in, to, payload)
		default:
			return nil, in.damaged("a block of kind %d, which does not belong here", kind)
		}
	}
}

func readHeader(in *blockReader) (*restore, error) {
	kind, payload, err := in.next()
	if err != nil {
		return nil, err
	}
	if kind != blockHeader {
		return nil, in.damaged("a block of kind %d where the header should be", kind)
	}
	d := decoder{b: payload}
	h := d.header(in.version)
	if err := d.end(); err != nil {
		return nil, in.damaged("the header: %v", err)
	}
	return &restore{to: fsm.NewBuilder(h), version: in.version}, nil
}

func finish(in *blockReader, to *restore, payload []byte) (*fsm.Machine, error) {
	d := decoder{b: payload}
	want := d.counts(in.version)
	if err := d.end(); err != nil {
		return nil, in.damaged("the end: %v", err)
	}
	if to.n != want {
		return nil, in.damaged("it holds %s, and should hold %s", to.n, want)
	}
	if err := in.end(); err != nil {
		return nil, err
	}
	m, err := to.to.Finish()
	if err != nil {
		return nil, in.damaged("%v", err)
	}
	return m, nil
}

// restore hands records to a builder in the order that the format asks for.
type restore struct {
	to   *fsm.Builder
	n    counts
	last byte // the kind of the last record

	version uint32
}

// records takes a block of them. Every record ends in the block that it began
// in.
func (r *restore) records(payload []byte) error {
	d := decoder{b: payload}
	for len(d.b) > 0 {
		kind := d.byte()
		if !follows(kind, r.last) || kind >= recordChannel && r.version < 2 {
			return fmt.Errorf("a record of kind %d, which does not belong here", kind)
		}
		r.last = kind
		if err := r.record(kind, &d); err != nil {
			return err
		}
	}
	return nil
}

// follows reports whether a record of the kind may come after one of the kind
// last, which is 0 at the beginning.
func follows(kind, last byte) bool {
	switch kind {
	case recordSpool:
		return last <= recordSpool
	case recordQueue:
		return last >= recordSpool && last <= recordClaim
	case recordMessage:
		return last == recordQueue || last == recordMessage
	case recordClaim:
		return last >= recordQueue && last <= recordClaim
	case recordChannel:
		return last >= recordSpool && last <= recordChannelClaim
	case recordChannelClaim:
		return last == recordChannel || last == recordChannelClaim
	case recordConnector:
		return last >= recordSpool
	default:
		return false
	}
}

func (r *restore) record(kind byte, d *decoder) error {
	switch kind {
	case recordSpool:
		r.n.spools++
		return add(r.to, (*fsm.Builder).AddSpool, d, (*decoder).spool)
	case recordQueue:
		r.n.queues++
		return add(r.to, (*fsm.Builder).AddQueue, d, (*decoder).queue)
	case recordMessage:
		r.n.messages++
		return add(r.to, (*fsm.Builder).AddMessage, d, (*decoder).message)
	case recordChannel:
		r.n.channels++
		return add(r.to, (*fsm.Builder).AddChannel, d, (*decoder).channel)
	case recordChannelClaim:
		r.n.channelClaims++
		return add(r.to, (*fsm.Builder).AddChannelClaim, d, (*decoder).channelClaim)
	case recordConnector:
		r.n.connectors++
		return add(r.to, (*fsm.Builder).AddConnector, d, (*decoder).document)
	default:
		r.n.claims++
		return add(r.to, (*fsm.Builder).AddClaim, d, (*decoder).claim)
	}
}

func add[R any](to *fsm.Builder, add func(*fsm.Builder, R) error, d *decoder, decode func(*decoder) R) error {
	rec := decode(d)
	if d.err != nil {
		return d.err
	}
	return add(to, rec)
}
