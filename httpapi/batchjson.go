package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/spoolraft/spoolraft/fsm"
)

// jsonBatch is the encoding for people and scripts: {"items": [...]}.
type jsonBatch struct{}

func (jsonBatch) mediaType() string { return typeJSON }

var payloadEncoding = base64.StdEncoding.Strict()

// jsonItems returns the elements of items as they are written.
func jsonItems(body string) ([]string, *problem) {
	if !json.Valid(unsafe.Slice(unsafe.StringData(body), len(body))) {
		return nil, badRequest("The body is not one valid JSON value")
	}
	s := jsonScan{text: body}
	if !s.open('{') {
		return nil, badRequest("The body must be a JSON object with items")
	}
	var items []string
	given := false
	for s.more() {
		name, _ := jsonText(s.value())
		if name != "items" {
			return nil, problemUnknownField(name)
		}
		if given {
			return nil, badRequest("The member items is given more than once")
		}
		given = true
		if !s.open('[') {
			return nil, badRequest("The member items must be an array")
		}
		for s.more() {
			if len(items) == maxBatchItems {
				return nil, checkItemCount(maxBatchItems + 1)
			}
			items = append(items, s.value())
		}
	}
	return items, checkItemCount(uint64(len(items)))
}

// readMembers gives each member of an item to keep, which says what is wrong with
// its value. Each may be given once.
func readMembers(item string, names []string, keep func(member int, value string) *problem) *problem {
	s := jsonScan{text: item}
	if !s.open('{') {
		return badRequest("An item must be a JSON object")
	}
	var given uint8
	for s.more() {
		name, _ := jsonText(s.value())
		member := -1
		for i := range names {
			if names[i] == name {
				member = i
			}
		}
		if member < 0 {
			return problemUnknownField(name)
		}
		if given&(1<<member) != 0 {
			return badRequest("The member %s of the item is given more than once", name)
		}
		given |= 1 << member
		if p := keep(member, s.value()); p != nil {
			return p
		}
	}
	return nil
}

func (jsonBatch) decodeSends(body string, maxPayloadBytes int64) ([]sendItem, *problem) {
	texts, p := jsonItems(body)
	if p != nil {
		return nil, p
	}
	items := make([]sendItem, len(texts))
	for i, text := range texts {
		if p := items[i].readJSON(text); p != nil {
			items[i] = sendItem{fault: p}
		} else if int64(len(items[i].payload)) > maxPayloadBytes {
			items[i] = sendItem{fault: problemTooLarge("payload", maxPayloadBytes)}
		}
	}
	return items, nil
}

var sendMembers = []string{"payload", "payloadBase64", "dedupString", "dedupHash", "delaySeconds"}

func (item *sendItem) readJSON(text string) *problem {
	payloads := 0
	p := readMembers(text, sendMembers, func(member int, value string) *problem {
		var ok bool
		switch name := sendMembers[member]; name {
		case "payload":
			payloads++
			if item.payload, ok = jsonText(value); !ok {
				return badRequest("The member payload of the item must be a string of valid Unicode; payloadBase64 takes any bytes")
			}
		case "payloadBase64":
			payloads++
			if item.payload, ok = jsonBase64(value); !ok {
				return badRequest("The member payloadBase64 of the item must be a string in base64, padded and on one line")
			}
		case "delaySeconds":
			return readJSONDelay(value, &item.delaySeconds)
		default:
			if item.keyed {
				return problemTwoKeys
			}
			key, ok := jsonText(value)
			if !ok {
				return badRequest("The member %s of the item must be a string", name)
			}
			if name == "dedupHash" {
				return item.setFingerprint(key)
			}
			return item.setKey(key)
		}
		return nil
	})
	if p == nil && payloads != 1 {
		p = badRequest("An item must have exactly one of payload and payloadBase64")
	}
	return p
}

// problemTwoKeys is that of an item which names its key twice.
var problemTwoKeys = badRequest("The item carries both a dedup string and a dedup hash and takes at most one of them")

func (item *sendItem) setKey(key string) *problem {
	if !validDedupString(key) {
		return badRequest("The dedup string of the item must be 1 to %d printable ASCII characters", maxDedupStringBytes)
	}
	item.keyed, item.key = true, fsm.FingerprintOf(key)
	return nil
}

func (item *sendItem) setFingerprint(digits string) *problem {
	var ok bool
	if item.key, ok = parseFingerprint(digits); !ok {
		return badRequest("The dedup hash of the item must be 32 hexadecimal digits")
	}
	item.keyed = true
	return nil
}

func jsonBase64(value string) (string, bool) {
	text, ok := jsonText(value)
	if !ok {
		return "", false
	}
	payload := make([]byte, payloadEncoding.DecodedLen(len(text)))
	n, err := payloadEncoding.Decode(payload, []byte(text))
	// The decoder skips line breaks, of which nobody can tell whether they belong.
	if err != nil || payloadEncoding.EncodedLen(n) != len(text) {
		return "", false
	}
	return asString(payload[:n]), true
}

func readJSONDelay(value string, to *uint32) *problem {
	n, ok := parseNumber(value, 0, fsm.MaxDelaySeconds)
	if !ok {
		return problemDelay
	}
	*to = uint32(n)
	return nil
}

var (
	problemDelay     = problemNumber("delay of the item in seconds", 0, fsm.MaxDelaySeconds)
	problemDelayless = badRequest("Only a release takes a delay")
	problemSettleOp  = badRequest("The item must say how to settle: ack, nack, release, fail, discard or renew")
)

func (jsonBatch) decodeSettles(body string) ([]settleItem, *problem) {
	texts, p := jsonItems(body)
	if p != nil {
		return nil, p
	}
	items := make([]settleItem, len(texts))
	for i, text := range texts {
		if p := items[i].readJSON(text); p != nil {
			items[i] = settleItem{fault: p}
		}
	}
	return items, nil
}

var settleMembers = []string{"lease", "op", "delaySeconds"}

func (item *settleItem) readJSON(text string) *problem {
	delayed := false
	p := readMembers(text, settleMembers, func(member int, value string) *problem {
		switch settleMembers[member] {
		case "lease":
			item.lease, _ = jsonText(value) // what is no string is no lease
		case "op":
			name, _ := jsonText(value)
			for _, o := range settleOps {
				if o.op != 0 && o.name == name {
					item.op = o.op
				}
			}
		default:
			delayed = true
			return readJSONDelay(value, &item.delaySeconds)
		}
		return nil
	})
	switch {
	case p != nil:
		return p
	case item.op == 0:
		return problemSettleOp
	case delayed && item.op != fsm.OpRelease:
		return problemDelayless
	}
	return nil
}

func (jsonBatch) encodeAnswers(answers []itemAnswer) []byte {
	b := make([]byte, 0, 64+64*len(answers))
	b = append(b, `{"items":[`...)
	for i := range answers {
		if i > 0 {
			b = append(b, ',')
		}
		b = answers[i].appendJSON(b)
	}
	return append(b, "]}\n"...)
}

func (a *itemAnswer) appendJSON(b []byte) []byte {
	b = append(b, `{"status":`...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	if a.id.Message != 0 {
		b = append(b, `,"id":"`...)
		b = append(appendID(b, a.id), '"')
	}
	if a.handle != "" {
		b = append(append(append(b, `,"handle":"`...), a.handle...), '"')
	}
	if a.leaseExpiresAtMs != 0 {
		b = append(append(append(b, `,"leaseExpiresAt":"`...), formatTime(a.leaseExpiresAtMs)...), '"')
	}
	if p := a.problem; p != nil {
		b = p.appendJSON(b)
	}
	return append(b, '}')
}

func (p *problem) appendJSON(b []byte) []byte {
	if p.kind != "" {
		b = append(append(append(b, `,"kind":"`...), p.kind...), '"')
	}
	b = appendJSONText(append(b, `,"message":`...), p.message)
	if p.details != nil {
		b = append(append(b, `,"details":`...), p.detailsJSON()...)
	}
	if p.retryAfterSeconds > 0 {
		b = append(b, `,"retryAfterSeconds":`...)
		b = strconv.AppendInt(b, p.retryAfterSeconds, 10)
	}
	return b
}

// detailsJSON is empty where there are none.
func (p *problem) detailsJSON() []byte {
	if p.details == nil {
		return nil
	}
	b, err := json.Marshal(p.details)
	if err != nil {
		panic(err) // they are maps of strings and numbers
	}
	return b
}

func (jsonBatch) encodeDeliveries(deliveries []delivery) []byte {
	size := 64
	for i := range deliveries {
		size += 192 + len(deliveries[i].Payload)
	}
	b := append(make([]byte, 0, size), `{"items":[`...)
	for i := range deliveries {
		if i > 0 {
			b = append(b, ',')
		}
		b = deliveries[i].appendJSON(b)
	}
	return append(b, "]}\n"...)
}

func (d *delivery) appendJSON(b []byte) []byte {
	b = append(b, `{"id":"`...)
	b = appendID(b, d.ID)
	b = append(append(append(b, `","lease":"`...), d.lease...), '"')
	if d.LeaseExpiresAtMs != 0 {
		b = append(append(append(b, `,"leaseExpiresAt":"`...), formatTime(d.LeaseExpiresAtMs)...), '"')
	}
	b = append(b, `,"retries":`...)
	b = strconv.AppendUint(b, uint64(d.Retries), 10)
	if utf8.ValidString(d.Payload) {
		b = appendJSONText(append(b, `,"payload":`...), d.Payload)
	} else {
		b = append(b, `,"payloadBase64":"`...)
		b = append(payloadEncoding.AppendEncode(b, []byte(d.Payload)), '"')
	}
	return append(b, '}')
}
