package httpapi

import (
	"encoding/binary"

	"github.com/spoolraft/spoolraft/fsm"
)

// binaryBatch is the encoding for programs: a version, what the items are, how
// many, and each item after its length. docs/api.md describes it byte by byte.
type binaryBatch struct{}

const typeBinaryBatch = "application/vnd.spoolraft.batch"

func (binaryBatch) mediaType() string { return typeBinaryBatch }

const batchVersion = 1

// What the items of a batch are.
const (
	batchSends      = 1
	batchSettles    = 2
	batchAnswers    = 3
	batchDeliveries = 4
)

// Parts of an item to send.
const (
	sendDelay = 1 << iota
	sendKey
	sendFingerprint

	allSendParts = sendDelay | sendKey | sendFingerprint
)

// Parts of an answer.
const (
	answerID = 1 << iota
	answerHandle
	answerLeaseExpiresAt
	answerProblem
)

// binaryScan reads a text front to back, without copying it. After the first
// failure it is at its end and bad.
type binaryScan struct {
	text string
	bad  bool
}

func (s *binaryScan) fail() { s.text, s.bad = "", true }

func (s *binaryScan) byte() byte {
	if s.text == "" {
		s.fail()
		return 0
	}
	c := s.text[0]
	s.text = s.text[1:]
	return c
}

// uvarint takes the shortest encoding only, so that equal batches have equal bytes.
func (s *binaryScan) uvarint() (v uint64) {
	for i := range min(len(s.text), binary.MaxVarintLen64) {
		c := s.text[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 || i == binary.MaxVarintLen64-1 && c > 1 {
				break
			}
			s.text = s.text[i+1:]
			return v
		}
	}
	s.fail()
	return 0
}

func (s *binaryScan) take(n uint64) string {
	if n > uint64(len(s.text)) {
		s.fail()
		return ""
	}
	taken := s.text[:n]
	s.text = s.text[n:]
	return taken
}

var problemItemCut = badRequest("The item ends before what it says that it has")

// scanItems gives every item of a batch to yield.
func scanItems(body string, sort byte, start func(items int), yield func(i int, item binaryScan)) *problem {
	s := binaryScan{text: body}
	if version := s.byte(); !s.bad && version != batchVersion {
		return badRequest("The batch has version %d and this server takes version %d", version, batchVersion)
	}
	if is := s.byte(); !s.bad && is != sort {
		return badRequest("The batch holds items of sort %d and this call takes items of sort %d", is, sort)
	}
	n := s.uvarint()
	if !s.bad {
		if p := checkItemCount(n); p != nil {
			return p
		}
	}
	// An item has a length at least, so that a count is no more than the body bears.
	if s.bad || n > uint64(len(s.text)) {
		return problemBatchCut
	}
	start(int(n))
	for i := range int(n) {
		item := s.take(s.uvarint())
		if s.bad {
			return problemBatchCut
		}
		yield(i, binaryScan{text: item})
	}
	if s.text != "" {
		return badRequest("Something follows the last item of the batch")
	}
	return nil
}

var problemBatchCut = badRequest("The batch ends before its last item, or a number in it is malformed")

func (binaryBatch) decodeSends(body string, maxPayloadBytes int64) (items []sendItem, p *problem) {
	p = scanItems(body, batchSends, func(n int) { items = make([]sendItem, n) }, func(i int, s binaryScan) {
		p := items[i].readBinary(s)
		if p == nil && int64(len(items[i].payload)) > maxPayloadBytes {
			p = problemTooLarge("payload", maxPayloadBytes)
		}
		if p != nil {
			items[i] = sendItem{fault: p}
		}
	})
	return items, p
}

func (item *sendItem) readBinary(s binaryScan) *problem {
	parts := s.byte()
	if parts&^allSendParts != 0 {
		return badRequest("The item has a part that this version does not know")
	}
	if parts&sendDelay != 0 {
		n := s.uvarint()
		if !s.bad && n > fsm.MaxDelaySeconds {
			return problemDelay
		}
		item.delaySeconds = uint32(n)
	}
	if parts&sendKey != 0 {
		if parts&sendFingerprint != 0 {
			return problemTwoKeys
		}
		key := s.take(s.uvarint())
		if s.bad {
			return problemItemCut
		}
		if p := item.setKey(key); p != nil {
			return p
		}
	}
	if parts&sendFingerprint != 0 {
		item.keyed = true
		copy(item.key[:], s.take(uint64(len(item.key))))
	}
	if s.bad {
		return problemItemCut
	}
	item.payload = s.text
	return nil
}

func (binaryBatch) decodeSettles(body string) (items []settleItem, p *problem) {
	p = scanItems(body, batchSettles, func(n int) { items = make([]settleItem, n) }, func(i int, s binaryScan) {
		if p := items[i].readBinary(s); p != nil {
			items[i] = settleItem{fault: p}
		}
	})
	return items, p
}

func (item *settleItem) readBinary(s binaryScan) *problem {
	number := s.byte()
	if s.bad {
		return problemItemCut
	}
	if int(number) >= len(settleOps) || settleOps[number].op == 0 {
		return problemSettleOp
	}
	item.op = settleOps[number].op
	if item.op == fsm.OpRelease {
		n := s.uvarint()
		if s.bad {
			return problemItemCut
		}
		if n > fsm.MaxDelaySeconds {
			return problemDelay
		}
		item.delaySeconds = uint32(n)
	}
	item.lease = s.text
	return nil
}

func appendBatchHead(b []byte, sort byte, items int) []byte {
	return binary.AppendUvarint(append(b, batchVersion, sort), uint64(items))
}

func appendBatchText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func (binaryBatch) encodeAnswers(answers []itemAnswer) []byte {
	b := appendBatchHead(make([]byte, 0, 16+16*len(answers)), batchAnswers, len(answers))
	var item []byte
	for i := range answers {
		item = answers[i].appendBinary(item[:0])
		b = append(binary.AppendUvarint(b, uint64(len(item))), item...)
	}
	return b
}

func (a *itemAnswer) appendBinary(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(a.status))
	at := len(b)
	b = append(b, 0)
	if a.id.Message != 0 {
		b[at] |= answerID
		b = binary.AppendUvarint(b, a.id.Queue)
		b = binary.AppendUvarint(b, a.id.Message)
	}
	if a.handle != "" {
		b[at] |= answerHandle
		b = appendBatchText(b, a.handle)
	}
	if a.leaseExpiresAtMs != 0 {
		b[at] |= answerLeaseExpiresAt
		b = binary.AppendUvarint(b, uint64(a.leaseExpiresAtMs))
	}
	if p := a.problem; p != nil {
		b[at] |= answerProblem
		b = binary.AppendUvarint(b, uint64(p.retryAfterSeconds))
		b = appendBatchText(b, p.kind)
		b = appendBatchText(b, p.message)
		b = append(b, p.detailsJSON()...)
	}
	return b
}

func (binaryBatch) encodeDeliveries(deliveries []delivery) []byte {
	size := 16
	for i := range deliveries {
		size += 96 + len(deliveries[i].Payload)
	}
	b := appendBatchHead(make([]byte, 0, size), batchDeliveries, len(deliveries))
	var head []byte
	for i := range deliveries {
		d := &deliveries[i]
		head = binary.AppendUvarint(head[:0], d.ID.Queue)
		head = binary.AppendUvarint(head, d.ID.Message)
		head = binary.AppendUvarint(head, uint64(d.Retries))
		head = binary.AppendUvarint(head, uint64(d.LeaseExpiresAtMs))
		head = appendBatchText(head, d.lease)
		b = binary.AppendUvarint(b, uint64(len(head)+len(d.Payload)))
		b = append(append(b, head...), d.Payload...)
	}
	return b
}
