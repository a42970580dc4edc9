package fsm

import "encoding/binary"

// The parts of a result that travel only where they are set.
const (
	resultID byte = 1 << iota
	resultLease
	resultLimit
	resultPayload
	resultQueue
	resultDeliveries
	resultVersion

	allResultParts = resultID | resultLease | resultLimit | resultPayload | resultQueue | resultDeliveries | resultVersion
)

// AppendResult appends the encoding of r, as a leader answers a forward.
func AppendResult(dst []byte, r *Result) []byte {
	var parts byte
	if r.ID != (MessageID{}) {
		parts |= resultID
	}
	if r.Moves != 0 || r.Retries != 0 || r.LeaseExpiresAtMs != 0 {
		parts |= resultLease
	}
	if r.Cap != 0 || r.Max != 0 || r.RetryAfterMs != 0 {
		parts |= resultLimit
	}
	if r.Payload != "" {
		parts |= resultPayload
	}
	if r.Queue != nil {
		parts |= resultQueue
	}
	if len(r.Deliveries) > 0 {
		parts |= resultDeliveries
	}
	if r.Version != 0 {
		parts |= resultVersion
	}
	dst = append(dst, byte(r.Code), parts)
	if parts&resultID != 0 {
		dst = binary.AppendUvarint(dst, r.ID.Queue)
		dst = binary.AppendUvarint(dst, r.ID.Message)
	}
	if parts&resultLease != 0 {
		dst = binary.AppendUvarint(dst, uint64(r.Moves))
		dst = binary.AppendUvarint(dst, uint64(r.Retries))
		dst = binary.AppendUvarint(dst, uint64(r.LeaseExpiresAtMs))
	}
	if parts&resultLimit != 0 {
		dst = append(dst, byte(r.Cap))
		dst = binary.AppendUvarint(dst, r.Max)
		dst = binary.AppendUvarint(dst, uint64(r.RetryAfterMs))
	}
	if parts&resultPayload != 0 {
		dst = appendString(dst, r.Payload)
	}
	if parts&resultQueue != 0 {
		dst = appendQueueInfo(dst, r.Queue)
	}
	if parts&resultDeliveries != 0 {
		dst = appendDeliveries(dst, r.Deliveries)
	}
	if parts&resultVersion != 0 {
		dst = binary.AppendUvarint(dst, r.Version)
	}
	return dst
}

func appendDeliveries(dst []byte, all []Delivery) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for i := range all {
		d := &all[i]
		for _, v := range [...]uint64{d.ID.Queue, d.ID.Message, uint64(d.Moves), uint64(d.Retries), uint64(d.LeaseExpiresAtMs)} {
			dst = binary.AppendUvarint(dst, v)
		}
		dst = appendString(dst, d.Payload)
	}
	return dst
}

// DecodeResults reads n results that [AppendResult] wrote, and nothing else.
// The error is [ErrMalformed].
func DecodeResults(data []byte, n int) ([]Result, error) {
	d := decoder{b: data}
	if n < 0 || n > len(data) {
		return nil, ErrMalformed
	}
	rs := make([]Result, n)
	for i := range rs {
		d.result(&rs[i])
	}
	return rs, d.end()
}

func (d *decoder) result(r *Result) {
	r.Code = Code(d.byte())
	parts := d.byte()
	if parts&^allResultParts != 0 {
		d.fail()
	}
	if parts&resultID != 0 {
		r.ID = MessageID{Queue: d.uvarint(), Message: d.uvarint()}
		d.expect(r.ID != MessageID{})
	}
	if parts&resultLease != 0 {
		r.Moves, r.Retries, r.LeaseExpiresAtMs = d.uint32(), d.uint32(), d.int63()
		d.expect(r.Moves != 0 || r.Retries != 0 || r.LeaseExpiresAtMs != 0)
	}
	if parts&resultLimit != 0 {
		r.Cap, r.Max, r.RetryAfterMs = CapKind(d.byte()), d.uvarint(), d.int63()
		d.expect(r.Cap != 0 || r.Max != 0 || r.RetryAfterMs != 0)
	}
	if parts&resultPayload != 0 {
		r.Payload = d.string(MaxPayloadBytes)
		d.expect(r.Payload != "")
	}
	if parts&resultQueue != 0 {
		r.Queue = d.queueInfo()
	}
	if parts&resultDeliveries != 0 {
		r.Deliveries = d.deliveries()
	}
	if parts&resultVersion != 0 {
		r.Version = d.uvarint()
		d.expect(r.Version != 0)
	}
}

const minDeliveryBytes = 6

func (d *decoder) deliveries() []Delivery {
	n := d.uvarint()
	d.expect(n > 0 && n <= MaxReceiveCount && n*minDeliveryBytes <= uint64(len(d.b)))
	if d.err != nil {
		return nil
	}
	all := make([]Delivery, n)
	for i := range all {
		all[i] = Delivery{
			ID: MessageID{Queue: d.uvarint(), Message: d.uvarint()}, Moves: d.uint32(), Retries: d.uint32(),
			LeaseExpiresAtMs: d.int63(), Payload: d.string(MaxPayloadBytes),
		}
	}
	return all
}

// expect fails where a part is present but empty, so that every value has one
// encoding.
func (d *decoder) expect(ok bool) {
	if !ok {
		d.fail()
	}
}

func appendQueueInfo(dst []byte, q *QueueInfo) []byte {
	dst = appendString(dst, q.Name)
	dst = appendString(dst, q.UID)
	dst = binary.AppendUvarint(dst, uint64(q.CreatedAtMs))
	dst = append(dst, byte(q.State))
	dst = appendPatch(dst, FullPatch(q.Settings))
	return binary.AppendUvarint(dst, uint64(q.EffectiveRetentionSeconds))
}

func (d *decoder) queueInfo() *QueueInfo {
	q := &QueueInfo{Name: d.string(MaxNameBytes), UID: d.string(maxUIDBytes), CreatedAtMs: d.int63(), State: QueueState(d.byte())}
	p := d.patch()
	d.expect(p.Set == allFields)
	q.Settings = p.To
	q.EffectiveRetentionSeconds = d.uint32()
	return q
}
