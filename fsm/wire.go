package fsm

import "encoding/binary"

// batchVersion is the first byte of every encoded batch.
const batchVersion = 1

// fieldSet says which fields of a command travel.
type fieldSet uint32

const (
	hasSpool fieldSet = 1 << iota
	hasQueue
	hasToken
	hasDelay
	hasKey
	hasPayload
	hasPatch
	hasRemoval  // Drain, UID
	hasCaps     // Caps, Suspended
	hasInit     // Secret, ClusterID
	hasLimit    // Count, MaxBytes
	hasDocument // Kind, Name, Version
	hasClaim    // Name, Key, Owner
	hasWindow   // WindowSeconds
	hasLapse    // LapseMs
	hasMaxKeys
)

const sendFields = hasSpool | hasQueue | hasDelay | hasKey | hasPayload

// opFields is the log format of every command: its fields, in the order of
// their constants. An op without fields here is unknown.
var opFields = [...]fieldSet{
	OpInit:        hasInit,
	OpSetCaps:     hasSpool | hasCaps,
	OpCreateQueue: hasSpool | hasQueue | hasPatch,
	OpUpdateQueue: hasSpool | hasQueue | hasPatch,
	OpDeleteQueue: hasSpool | hasQueue | hasRemoval,
	OpSend:        sendFields,
	OpReceive:     hasSpool | hasQueue,
	OpAck:         hasSpool | hasToken,
	OpNack:        hasSpool | hasToken,
	OpRelease:     hasSpool | hasToken | hasDelay,
	OpFail:        hasSpool | hasToken,
	OpDiscard:     hasSpool | hasToken,
	OpRenew:       hasSpool | hasToken,
	OpRecover:     hasSpool | hasToken | hasDelay,
	OpAckAndSend:  sendFields | hasToken,
	OpReceiveMany: hasSpool | hasQueue | hasLimit,

	OpPutDocument:    hasDocument | hasPayload,
	OpDeleteDocument: hasDocument,
	OpClaim:          hasClaim | hasWindow | hasLapse | hasMaxKeys,
	OpSettleClaim:    hasClaim | hasWindow,
	OpReleaseClaim:   hasClaim,
	OpClaimAndSend:   hasSpool | hasQueue | hasDelay | hasPayload | hasClaim | hasWindow | hasMaxKeys,
}

func fieldsOf(op Op) fieldSet {
	if int(op) >= len(opFields) {
		return 0
	}
	return opFields[op]
}

// AppendBatch appends the encoding of b to dst.
func AppendBatch(dst []byte, b Batch) []byte {
	dst = append(dst, batchVersion)
	dst = binary.AppendUvarint(dst, uint64(b.NowMs))
	return AppendCommands(dst, b.Commands)
}

// DecodeBatch reads what [AppendBatch] wrote. It copies what it keeps. The
// error is [ErrMalformed] or an [UnknownOpError].
func DecodeBatch(data []byte) (Batch, error) {
	d := decoder{b: data}
	if d.byte() != batchVersion {
		d.fail()
	}
	b := Batch{NowMs: d.timeMs()}
	b.Commands = d.commands()
	return b, d.end()
}

// AppendCommands appends commands without a time, as a follower forwards them.
func AppendCommands(dst []byte, cs []Command) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(cs)))
	for i := range cs {
		dst = appendCommand(dst, &cs[i])
	}
	return dst
}

// DecodeCommands reads what [AppendCommands] wrote, as [DecodeBatch] does.
func DecodeCommands(data []byte) ([]Command, error) {
	d := decoder{b: data}
	cs := d.commands()
	return cs, d.end()
}

func appendCommand(dst []byte, c *Command) []byte {
	dst = append(dst, byte(c.Op))
	has := fieldsOf(c.Op)
	if has&hasSpool != 0 {
		dst = appendString(dst, c.Spool)
	}
	if has&hasQueue != 0 {
		dst = appendString(dst, c.Queue)
	}
	if has&hasToken != 0 {
		dst = append(dst, byte(c.Token.Sort))
		dst = binary.AppendUvarint(dst, c.Token.Queue)
		dst = binary.AppendUvarint(dst, c.Token.Message)
		dst = binary.AppendUvarint(dst, uint64(c.Token.Moves))
	}
	if has&hasDelay != 0 {
		dst = binary.AppendUvarint(dst, uint64(c.DelaySeconds))
	}
	if has&hasKey != 0 {
		dst = appendBool(dst, c.Keyed)
		if c.Keyed {
			dst = append(dst, c.Key[:]...)
		}
	}
	if has&hasPayload != 0 {
		dst = appendString(dst, c.Payload)
	}
	if has&hasPatch != 0 {
		dst = appendPatch(dst, c.Patch)
	}
	if has&hasRemoval != 0 {
		dst = appendBool(dst, c.Drain)
		dst = appendString(dst, c.UID)
	}
	if has&hasCaps != 0 {
		dst = appendCaps(dst, c.Caps)
		dst = appendBool(dst, c.Suspended)
	}
	if has&hasInit != 0 {
		dst = append(dst, c.Secret[:]...)
		dst = appendString(dst, c.ClusterID)
	}
	if has&hasLimit != 0 {
		dst = binary.AppendUvarint(dst, uint64(c.Count))
		dst = binary.AppendUvarint(dst, uint64(c.MaxBytes))
	}
	return appendChannelFields(dst, c, has)
}

// appendChannelFields appends the fields that documents and claims take.
func appendChannelFields(dst []byte, c *Command, has fieldSet) []byte {
	if has&hasDocument != 0 {
		dst = append(dst, byte(c.Kind))
		dst = appendString(dst, c.Name)
		dst = binary.AppendUvarint(dst, c.Version)
	}
	if has&hasClaim != 0 {
		dst = appendString(dst, c.Name)
		dst = append(dst, c.Key[:]...)
		dst = append(dst, c.Owner[:]...)
	}
	if has&hasWindow != 0 {
		dst = binary.AppendUvarint(dst, uint64(c.WindowSeconds))
	}
	if has&hasLapse != 0 {
		dst = binary.AppendUvarint(dst, uint64(c.LapseMs))
	}
	if has&hasMaxKeys != 0 {
		dst = binary.AppendUvarint(dst, uint64(c.MaxKeys))
	}
	return dst
}

// commands reads a list of commands. A command's names are those of the one
// before where they are equal, which saves most of their allocations.
func (d *decoder) commands() []Command {
	n := d.uvarint()
	if n > MaxBatchCommands || n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	cs := make([]Command, 0, min(n, uint64(len(d.b)/4+1)))
	var last *Command
	for range n {
		cs = append(cs, Command{})
		c := &cs[len(cs)-1]
		d.command(c, last)
		if d.err != nil {
			return nil
		}
		last = c
	}
	return cs
}

func (d *decoder) command(c, last *Command) {
	c.Op = Op(d.byte())
	has := fieldsOf(c.Op)
	if has == 0 {
		if d.err == nil {
			d.fail()
			d.err = UnknownOpError{c.Op}
		}
		return
	}
	if last == nil {
		last = c
	}
	if has&hasSpool != 0 {
		c.Spool = d.name(last.Spool)
	}
	if has&hasQueue != 0 {
		c.Queue = d.name(last.Queue)
	}
	if has&hasToken != 0 {
		c.Token = Token{Sort: TokenSort(d.byte()), Queue: d.uvarint(), Message: d.uvarint(), Moves: d.uint32()}
	}
	if has&hasDelay != 0 {
		c.DelaySeconds = d.uint32()
	}
	if has&hasKey != 0 {
		if c.Keyed = d.bool(); c.Keyed {
			copy(c.Key[:], d.fixed(len(c.Key)))
		}
	}
	if has&hasPayload != 0 {
		c.Payload = d.string(MaxPayloadBytes)
	}
	if has&hasPatch != 0 {
		c.Patch = d.patch()
	}
	if has&hasRemoval != 0 {
		c.Drain = d.bool()
		c.UID = d.string(maxUIDBytes)
	}
	if has&hasCaps != 0 {
		c.Caps = d.caps()
		c.Suspended = d.bool()
	}
	if has&hasInit != 0 {
		copy(c.Secret[:], d.fixed(SecretBytes))
		c.ClusterID = d.string(maxClusterIDBytes)
	}
	if has&hasLimit != 0 {
		c.Count, c.MaxBytes = d.uint32(), d.uint32()
	}
	d.channelFields(c, last, has)
}

func (d *decoder) channelFields(c, last *Command, has fieldSet) {
	if has&hasDocument != 0 {
		c.Kind, c.Name, c.Version = DocumentKind(d.byte()), d.name(last.Name), d.uvarint()
	}
	if has&hasClaim != 0 {
		c.Name = d.name(last.Name)
		copy(c.Key[:], d.fixed(len(c.Key)))
		copy(c.Owner[:], d.fixed(len(c.Owner)))
	}
	if has&hasWindow != 0 {
		c.WindowSeconds = d.uint32()
	}
	if has&hasLapse != 0 {
		c.LapseMs = d.uint32()
	}
	if has&hasMaxKeys != 0 {
		c.MaxKeys = d.uint32()
	}
}

func (d *decoder) name(last string) string {
	n := d.uvarint()
	if n > MaxNameBytes {
		d.fail()
		return ""
	}
	b := d.fixed(int(n))
	if string(b) == last {
		return last
	}
	return string(b)
}

func appendPatch(dst []byte, p Patch) []byte {
	dst = append(dst, byte(p.Set))
	if p.Set&FieldLeaseTimeout != 0 {
		dst = binary.AppendUvarint(dst, uint64(p.To.LeaseTimeoutSeconds))
	}
	if p.Set&FieldMaxRetries != 0 {
		dst = binary.AppendUvarint(dst, uint64(p.To.MaxRetries))
	}
	if p.Set&FieldDedupWindow != 0 {
		dst = binary.AppendUvarint(dst, uint64(p.To.DedupWindowSeconds))
	}
	if p.Set&FieldRetention != 0 {
		dst = binary.AppendUvarint(dst, uint64(p.To.RetentionSeconds))
	}
	if p.Set&FieldRecvRateLimit != 0 {
		dst = binary.AppendUvarint(dst, p.To.RecvRateLimit.IntervalMicros)
		dst = binary.AppendUvarint(dst, p.To.RecvRateLimit.Burst)
	}
	return dst
}

func (d *decoder) patch() (p Patch) {
	p.Set = Field(d.byte())
	if p.Set&^allFields != 0 {
		d.fail()
	}
	if p.Set&FieldLeaseTimeout != 0 {
		p.To.LeaseTimeoutSeconds = d.uint32()
	}
	if p.Set&FieldMaxRetries != 0 {
		p.To.MaxRetries = d.uint32()
	}
	if p.Set&FieldDedupWindow != 0 {
		p.To.DedupWindowSeconds = d.uint32()
	}
	if p.Set&FieldRetention != 0 {
		p.To.RetentionSeconds = d.uint32()
	}
	if p.Set&FieldRecvRateLimit != 0 {
		p.To.RecvRateLimit = RateLimit{IntervalMicros: d.uvarint(), Burst: d.uvarint()}
	}
	return p
}

func appendCaps(dst []byte, c Caps) []byte {
	for _, v := range [...]uint64{c.MaxMessages, c.MaxDataBytes, c.MaxDedupKeys, c.MaxQueues, uint64(c.MaxRetentionSeconds)} {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func (d *decoder) caps() Caps {
	return Caps{
		MaxMessages: d.uvarint(), MaxDataBytes: d.uvarint(), MaxDedupKeys: d.uvarint(), MaxQueues: d.uvarint(),
		MaxRetentionSeconds: d.uint32(),
	}
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}
