package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/spoolraft/spoolraft/fsm"
)

// The kinds of records. Numbers are part of the format.
const (
	recordSpool   = 1
	recordQueue   = 2
	recordMessage = 3
	recordClaim   = 4

	recordChannel      = 5 // from here on version 2
	recordChannelClaim = 6
	recordConnector    = 7
)

// counts are what the end block carries.
type counts struct {
	spools, queues, messages, claims    uint64
	channels, channelClaims, connectors uint64
}

func (n counts) String() string {
	s := fmt.Sprintf("%d spools, %d queues, %d messages and %d remembered keys", n.spools, n.queues, n.messages, n.claims)
	if n.channels+n.channelClaims+n.connectors > 0 {
		s += fmt.Sprintf(", %d channels with %d claims, and %d connectors", n.channels, n.channelClaims, n.connectors)
	}
	return s
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendUvarints(dst []byte, vs ...uint64) []byte {
	for _, v := range vs {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func appendHeader(dst []byte, h fsm.HeaderRecord, version uint32) []byte {
	dst = appendUvarints(dst, h.Index, uint64(h.NowMs), h.NextQueue)
	dst = append(dst, h.Secret[:]...)
	dst = appendString(dst, h.ClusterID)
	dst = binary.LittleEndian.AppendUint64(dst, h.Hash)
	if version >= 2 {
		dst = appendUvarints(dst, h.Revision)
	}
	return dst
}

func appendSpool(dst []byte, s fsm.SpoolRecord) []byte {
	dst = append(dst, recordSpool)
	dst = appendString(dst, s.Name)
	dst = appendBool(dst, s.Suspended)
	c := s.Caps
	return appendUvarints(dst, c.MaxMessages, c.MaxDataBytes, c.MaxDedupKeys, c.MaxQueues, uint64(c.MaxRetentionSeconds))
}

func appendQueue(dst []byte, q fsm.QueueRecord) []byte {
	dst = append(dst, recordQueue)
	dst = appendUvarints(dst, q.Number)
	dst = appendString(dst, q.Spool)
	dst = appendString(dst, q.Name)
	dst = appendUvarints(dst, uint64(q.CreatedAtMs))
	dst = append(dst, byte(q.State))
	s := q.Settings
	dst = appendUvarints(dst, uint64(s.LeaseTimeoutSeconds), uint64(s.MaxRetries), uint64(s.DedupWindowSeconds),
		uint64(s.RetentionSeconds), s.RecvRateLimit.IntervalMicros, s.RecvRateLimit.Burst)
	dst = appendUvarints(dst, q.NextMessage, uint64(q.RateMicros))
	t := q.Totals
	return appendUvarints(dst, t.Added, t.Acked, t.Nacked, t.Released, t.Failed, t.Discarded, t.Expired)
}

func appendMessage(dst []byte, m fsm.MessageRecord) []byte {
	dst = append(dst, recordMessage)
	dst = appendUvarints(dst, m.Number)
	dst = append(dst, byte(m.State))
	dst = appendUvarints(dst, uint64(m.CreatedAtMs), uint64(m.DueMs), uint64(m.Moves), uint64(m.Retries), uint64(m.LeaseMaxRetries))
	return appendString(dst, m.Payload)
}

func appendClaim(dst []byte, c fsm.ClaimRecord) []byte {
	dst = append(dst, recordClaim)
	dst = append(dst, c.Key[:]...)
	return appendUvarints(dst, c.Message, uint64(c.ClaimedAtMs))
}

func appendDocument(dst []byte, d fsm.DocumentRecord) []byte {
	dst = appendString(dst, d.Name)
	dst = appendUvarints(dst, d.Version, uint64(d.ChangedAtMs))
	return appendString(dst, d.Document)
}

func appendChannel(dst []byte, c fsm.ChannelRecord) []byte {
	dst = appendDocument(append(dst, recordChannel), c.DocumentRecord)
	return appendUvarints(dst, c.Totals.Claimed, c.Totals.Settled, c.Totals.Released, c.Totals.Lapsed)
}

func appendChannelClaim(dst []byte, c fsm.ChannelClaimRecord) []byte {
	dst = append(dst, recordChannelClaim)
	dst = append(dst, c.Key[:]...)
	dst = append(dst, c.Owner[:]...)
	dst = appendUvarints(dst, uint64(c.ClaimedAtMs), uint64(c.LapsesAtMs), uint64(c.WindowEndsMs))
	return appendBool(dst, c.Settled)
}

func appendConnector(dst []byte, d fsm.DocumentRecord) []byte {
	return appendDocument(append(dst, recordConnector), d)
}

func appendEnd(dst []byte, n counts, version uint32) []byte {
	dst = appendUvarints(dst, n.spools, n.queues, n.messages, n.claims)
	if version >= 2 {
		dst = appendUvarints(dst, n.channels, n.channelClaims, n.connectors)
	}
	return dst
}

var errRecord = errors.New("a record is not what its kind calls for")

// decoder reads the fields of records. After the first failure it reads zeros;
// the failure shows in err.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() {
	d.err = errRecord
	d.b = nil
}

// fixed returns the next n bytes, not copied.
func (d *decoder) fixed(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.fixed(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) bool() bool {
	c := d.byte()
	if c > 1 {
		d.fail()
	}
	return c == 1
}

// uvarint accepts the shortest encoding only.
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

func (d *decoder) string(maxBytes uint64) string {
	n := d.uvarint()
	if n > maxBytes {
		d.fail()
		return ""
	}
	return string(d.fixed(n))
}

func (d *decoder) header(version uint32) fsm.HeaderRecord {
	h := fsm.HeaderRecord{Index: d.uvarint(), NowMs: d.int63(), NextQueue: d.uvarint()}
	copy(h.Secret[:], d.fixed(fsm.SecretBytes))
	h.ClusterID = d.string(fsm.MaxNameBytes)
	if b := d.fixed(8); b != nil {
		h.Hash = binary.LittleEndian.Uint64(b)
	}
	if version >= 2 {
		h.Revision = d.uvarint()
	}
	return h
}

func (d *decoder) spool() fsm.SpoolRecord {
	return fsm.SpoolRecord{
		Name:      d.string(fsm.MaxNameBytes),
		Suspended: d.bool(),
		Caps: fsm.Caps{
			MaxMessages:         d.uvarint(),
			MaxDataBytes:        d.uvarint(),
			MaxDedupKeys:        d.uvarint(),
			MaxQueues:           d.uvarint(),
			MaxRetentionSeconds: d.uint32(),
		},
	}
}

func (d *decoder) queue() fsm.QueueRecord {
	return fsm.QueueRecord{
		Number:      d.uvarint(),
		Spool:       d.string(fsm.MaxNameBytes),
		Name:        d.string(fsm.MaxNameBytes),
		CreatedAtMs: d.int63(),
		State:       fsm.QueueState(d.byte()),
		Settings: fsm.Settings{
			LeaseTimeoutSeconds: d.uint32(),
			MaxRetries:          d.uint32(),
			DedupWindowSeconds:  d.uint32(),
			RetentionSeconds:    d.uint32(),
			RecvRateLimit:       fsm.RateLimit{IntervalMicros: d.uvarint(), Burst: d.uvarint()},
		},
		NextMessage: d.uvarint(),
		RateMicros:  d.int63(),
		Totals: fsm.Totals{
			Added:     d.uvarint(),
			Acked:     d.uvarint(),
			Nacked:    d.uvarint(),
			Released:  d.uvarint(),
			Failed:    d.uvarint(),
			Discarded: d.uvarint(),
			Expired:   d.uvarint(),
		},
	}
}

func (d *decoder) message() fsm.MessageRecord {
	return fsm.MessageRecord{
		Number:          d.uvarint(),
		State:           fsm.MessageState(d.byte()),
		CreatedAtMs:     d.int63(),
		DueMs:           d.int63(),
		Moves:           d.uint32(),
		Retries:         d.uint32(),
		LeaseMaxRetries: d.uint32(),
		Payload:         d.string(fsm.MaxPayloadBytes),
	}
}

func (d *decoder) claim() fsm.ClaimRecord {
	var c fsm.ClaimRecord
	copy(c.Key[:], d.fixed(uint64(len(c.Key))))
	c.Message = d.uvarint()
	c.ClaimedAtMs = d.int63()
	return c
}

func (d *decoder) document() fsm.DocumentRecord {
	return fsm.DocumentRecord{
		Name: d.string(fsm.MaxNameBytes), Version: d.uvarint(), ChangedAtMs: d.int63(), Document: d.string(fsm.MaxDocumentBytes),
	}
}

func (d *decoder) channel() fsm.ChannelRecord {
	return fsm.ChannelRecord{
		DocumentRecord: d.document(),
		Totals:         fsm.ClaimTotals{Claimed: d.uvarint(), Settled: d.uvarint(), Released: d.uvarint(), Lapsed: d.uvarint()},
	}
}

func (d *decoder) channelClaim() fsm.ChannelClaimRecord {
	var c fsm.ChannelClaimRecord
	copy(c.Key[:], d.fixed(uint64(len(c.Key))))
	copy(c.Owner[:], d.fixed(uint64(len(c.Owner))))
	c.ClaimedAtMs, c.LapsesAtMs, c.WindowEndsMs = d.int63(), d.int63(), d.int63()
	c.Settled = d.bool()
	return c
}

func (d *decoder) counts(version uint32) counts {
	n := counts{spools: d.uvarint(), queues: d.uvarint(), messages: d.uvarint(), claims: d.uvarint()}
	if version >= 2 {
		n.channels, n.channelClaims, n.connectors = d.uvarint(), d.uvarint(), d.uvarint()
	}
	return n
}

// end returns the failure, which includes bytes left over.
func (d *decoder) end() error {
	if len(d.b) > 0 {
		d.fail()
	}
	return d.err
}
