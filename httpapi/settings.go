package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spoolraft/spoolraft/fsm"
)

// setting is one member of a settings object.
type setting struct {
	name        string
	field       fsm.Field
	least, most uint64
	put         func(s *fsm.Settings, n uint64) // nil: recvRateLimit
}

var settings = []setting{
	{"leaseTimeoutSeconds", fsm.FieldLeaseTimeout, 0, fsm.MaxLeaseTimeoutSeconds, func(s *fsm.Settings, n uint64) { s.LeaseTimeoutSeconds = uint32(n) }},
	{"maxRetries", fsm.FieldMaxRetries, 0, fsm.MaxMaxRetries, func(s *fsm.Settings, n uint64) { s.MaxRetries = uint32(n) }},
	{"dedupWindowSeconds", fsm.FieldDedupWindow, 0, fsm.MaxDedupWindowSeconds, func(s *fsm.Settings, n uint64) { s.DedupWindowSeconds = uint32(n) }},
	{"retentionSeconds", fsm.FieldRetention, fsm.MinRetentionSeconds, fsm.MaxRetentionSeconds, func(s *fsm.Settings, n uint64) { s.RetentionSeconds = uint32(n) }},
	{"recvRateLimit", fsm.FieldRecvRateLimit, 0, 0, nil},
}

// settingsReader reads a settings object token by token, since
// [json.Unmarshal] would fold the case of names and take null and repetition.
type settingsReader struct {
	tokens *json.Decoder
	patch  fsm.Patch
}

// parseSettings reads the body of a PUT or a PATCH. No body is an empty object.
func parseSettings(body string) (fsm.Patch, *problem) {
	if body == "" {
		return fsm.Patch{}, nil
	}
	if !json.Valid([]byte(body)) {
		return fsm.Patch{}, badRequest("The body is not one valid JSON value")
	}
	r := settingsReader{tokens: json.NewDecoder(strings.NewReader(body))}
	r.tokens.UseNumber()
	if r.next() != json.Delim('{') {
		return fsm.Patch{}, badRequest("The body must be a JSON object with settings")
	}
	for r.tokens.More() {
		if p := r.readSetting(); p != nil {
			return fsm.Patch{}, p
		}
	}
	return r.patch, nil
}

// next returns the next token. The body is known to be valid, so that there
// is no error but the end.
func (r *settingsReader) next() json.Token {
	t, _ := r.tokens.Token()
	return t
}

func (r *settingsReader) readSetting() *problem {
	name, _ := r.next().(string)
	for _, s := range settings {
		if s.name != name {
			continue
		}
		if r.patch.Set&s.field != 0 {
			return badRequest("The setting %s is given more than once", name)
		}
		r.patch.Set |= s.field
		if s.put == nil {
			return r.readRate()
		}
		n, ok := r.number(s.least, s.most)
		if !ok {
			return problemNumber("setting "+name, s.least, s.most)
		}
		s.put(&r.patch.To, n)
		return nil
	}
	return problemUnknownField(name)
}

// readRate reads null or an object with both members.
func (r *settingsReader) readRate() *problem {
	switch r.next() {
	case nil:
		return nil
	case json.Delim('{'):
	default:
		return badRequest("The setting recvRateLimit must be null or an object with intervalMicros and burst")
	}
	rate := &r.patch.To.RecvRateLimit
	seen := map[string]bool{}
	for r.tokens.More() {
		name, _ := r.next().(string)
		to, most := &rate.IntervalMicros, uint64(fsm.MaxRecvIntervalMicros)
		switch name {
		case "intervalMicros":
		case "burst":
			to, most = &rate.Burst, fsm.MaxRecvBurst
		default:
			return problemUnknownField(name)
		}
		if seen[name] {
			return badRequest("The member %s of recvRateLimit is given more than once", name)
		}
		seen[name] = true
		n, ok := r.number(0, most)
		if !ok {
			return problemNumber("member "+name+" of recvRateLimit", 1, most)
		}
		*to = n
	}
	r.next() // the closing brace
	if len(seen) != 2 || (rate.IntervalMicros == 0) != (rate.Burst == 0) {
		return badRequest("The setting recvRateLimit must carry both intervalMicros and burst, both at least 1, or both 0 for no limit")
	}
	return nil
}

// number reads a whole number within bounds, written in plain digits.
func (r *settingsReader) number(least, most uint64) (uint64, bool) {
	text, ok := r.next().(json.Number)
	if !ok {
		return 0, false
	}
	return parseNumber(text.String(), least, most)
}

func problemNumber(what string, least, most uint64) *problem {
	return badRequest("The %s must be a whole number from %d to %d", what, least, most)
}

func problemUnknownField(name string) *problem {
	if len(name) > fsm.MaxNameBytes {
		return badRequest("The body has a member that this call does not take")
	}
	return badRequest("The body has the member %s that this call does not take", strconv.QuoteToASCII(name))
}
