package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ConfigError says what is wrong with a configuration, and where.
type ConfigError struct {
	Path string // as $.steps[0].http.url
	What string
}

func (e *ConfigError) Error() string { return e.Path + ": " + e.What }

// fields are an object's, each with what reads its value.
type fields map[string]func(at string, raw []byte)

// parser reads JSON field by field: unlike package json alone, it refuses what
// is unknown, given twice or differs in case, and knows where it is. The first
// failure stays in err.
type parser struct{ err error }

func (p *parser) fail(at, what string) {
	if p.err == nil {
		p.err = &ConfigError{Path: at, What: what}
	}
}

func (p *parser) object(at string, raw []byte, known fields, required ...string) {
	seen := p.members(at, raw, func(name, at string, raw []byte) {
		if read, ok := known[name]; ok {
			read(at, raw)
		} else {
			p.fail(at, "is not a field of this object")
		}
	})
	for _, name := range required {
		if !seen[name] {
			p.fail(at+"."+name, "is missing")
		}
	}
}

// members gives each member of an object to read, and returns their names.
func (p *parser) members(at string, raw []byte, read func(name, at string, raw []byte)) map[string]bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		p.fail(at, "must be a JSON object")
		return nil
	}
	seen := map[string]bool{}
	for p.err == nil && d.More() {
		t, err := d.Token()
		name, _ := t.(string)
		var value json.RawMessage
		if err = errors.Join(err, d.Decode(&value)); err != nil {
			p.fail(at, "is no valid JSON")
			return nil
		}
		member := at + "." + name
		if seen[name] {
			p.fail(member, "is given twice")
		}
		seen[name] = true
		read(name, member, value)
	}
	if p.err == nil {
		p.end(at, d)
	}
	return seen
}

// end expects the end of the object, and nothing after it.
func (p *parser) end(at string, d *json.Decoder) {
	if _, err := d.Token(); err != nil {
		p.fail(at, "is no valid JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		p.fail(at, "has something after its end")
	}
}

func (p *parser) array(at string, raw []byte) (items []json.RawMessage) {
	if err := json.Unmarshal(raw, &items); err != nil {
		p.fail(at, "must be an array")
	}
	return items
}

func (p *parser) integer(to *int, least, most int) func(at string, raw []byte) {
	return func(at string, raw []byte) {
		v, err := strconv.Atoi(string(raw))
		if err != nil || v < least || v > most {
			p.fail(at, fmt.Sprintf("must be an integer from %d to %d", least, most))
			return
		}
		*to = v
	}
}

func (p *parser) text(to *string, valid func(string) bool, what string) func(at string, raw []byte) {
	return func(at string, raw []byte) {
		var s *string
		if err := json.Unmarshal(raw, &s); err != nil || s == nil || len(*s) > maxTextBytes || !valid(*s) {
			p.fail(at, "must be "+what)
			return
		}
		*to = *s
	}
}

func (p *parser) headers(at string, raw []byte) map[string]string {
	headers := map[string]string{}
	p.members(at, raw, func(name, at string, raw []byte) {
		if !isFieldName(name) {
			p.fail(at, "is no legal HTTP field name")
		}
		var value string
		p.text(&value, isFieldValue, "a legal HTTP field value")(at, raw)
		headers[name] = value
	})
	return headers
}
