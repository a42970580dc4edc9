package channel

import (
	"fmt"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

// Bounds of a configuration, inclusive, and its defaults.
const (
	DefaultWindowSeconds = 300
	MaxWindowSeconds     = fsm.MaxClaimWindowSeconds
	DefaultTimeoutMs     = 30_000
	MaxTimeoutMs         = 3_600_000
	DefaultMaxBodyBytes  = 1 << 20
	MaxBodyBytes         = fsm.MaxPayloadBytes
	MaxSteps             = 16

	maxConcurrency = 100_000
	maxPerSecond   = 1_000_000
	maxTextBytes   = 2_048
)

// Config is a channel as its users write it.
type Config struct {
	Deduplication  *Deduplication // nil: no delivery is checked
	Steps          []Step
	Timeout        time.Duration
	MaxConcurrency int        // 0: no limit
	RateLimit      *RateLimit // nil: no limit
	MaxBodyBytes   int
}

// Deduplication says how repeats are told, and for how long.
type Deduplication struct {
	Header    string // canonical
	Window    time.Duration
	Connector string // "": the default store
	Deny      bool   // refuse, rather than proceed unchecked, where the store can't answer
}

// RateLimit is a token bucket.
type RateLimit struct{ PerSecond, Burst int }

// Step is one of the three kinds of steps, the others nil.
type Step struct {
	Enqueue *EnqueueStep
	HTTP    *HTTPStep
	Call    *CallStep
}

// EnqueueStep appends the body to a queue.
type EnqueueStep struct {
	Spool, Queue string
	DelaySeconds uint32
}

// HTTPStep sends the body to a server, whose answer replaces it.
type HTTPStep struct {
	URL, Method string
	Headers     map[string]string
}

// CallStep runs another channel inside the process.
type CallStep struct{ Channel string }

// Parse reads a channel's configuration. The error is a [*ConfigError].
func Parse(document []byte) (*Config, error) {
	c := &Config{Timeout: DefaultTimeoutMs * time.Millisecond, MaxBodyBytes: DefaultMaxBodyBytes}
	p := &parser{}
	timeoutMs := DefaultTimeoutMs
	p.object("$", document, fields{
		"deduplication":   func(at string, raw []byte) { c.Deduplication = p.deduplication(at, raw) },
		"steps":           func(at string, raw []byte) { c.Steps = p.steps(at, raw) },
		"timeout_ms":      p.integer(&timeoutMs, 1, MaxTimeoutMs),
		"max_concurrency": p.integer(&c.MaxConcurrency, 1, maxConcurrency),
		"rate_limit":      func(at string, raw []byte) { c.RateLimit = p.rateLimit(at, raw) },
		"max_body_bytes":  p.integer(&c.MaxBodyBytes, 1, MaxBodyBytes),
	}, "steps")
	if p.err != nil {
		return nil, p.err
	}
	c.Timeout = time.Duration(timeoutMs) * time.Millisecond
	return c, nil
}

func (p *parser) deduplication(at string, raw []byte) *Deduplication {
	d := &Deduplication{}
	window, policy := DefaultWindowSeconds, "allow"
	p.object(at, raw, fields{
		"header":           p.text(&d.Header, isFieldName, "a legal HTTP field name"),
		"window_secs":      p.integer(&window, 1, MaxWindowSeconds),
		"connector":        p.text(&d.Connector, fsm.ValidName, "the name of a connector"),
		"on_backend_error": p.text(&policy, func(s string) bool { return s == "allow" || s == "deny" }, `"allow" or "deny"`),
	}, "header")
	d.Header = textproto.CanonicalMIMEHeaderKey(d.Header)
	d.Window, d.Deny = time.Duration(window)*time.Second, policy == "deny"
	return d
}

func (p *parser) rateLimit(at string, raw []byte) *RateLimit {
	r := &RateLimit{}
	p.object(at, raw, fields{
		"per_second": p.integer(&r.PerSecond, 1, maxPerSecond),
		"burst":      p.integer(&r.Burst, 1, maxPerSecond),
	}, "per_second", "burst")
	return r
}

func (p *parser) steps(at string, raw []byte) (all []Step) {
	items := p.array(at, raw)
	if len(items) < 1 || len(items) > MaxSteps {
		p.fail(at, fmt.Sprintf("must have 1 to %d steps", MaxSteps))
	}
	for i, item := range items {
		all = append(all, p.step(fmt.Sprintf("%s[%d]", at, i), item))
	}
	return all
}

func (p *parser) step(at string, raw []byte) (s Step) {
	kinds := 0
	kind := func(parse func(at string, raw []byte)) func(string, []byte) {
		return func(at string, raw []byte) { kinds++; parse(at, raw) }
	}
	p.object(at, raw, fields{
		"enqueue":      kind(func(at string, raw []byte) { s.Enqueue = p.enqueueStep(at, raw) }),
		"http":         kind(func(at string, raw []byte) { s.HTTP = p.httpStep(at, raw) }),
		"channel_call": kind(func(at string, raw []byte) { s.Call = p.callStep(at, raw) }),
	})
	if kinds != 1 {
		p.fail(at, "must be one of enqueue, http and channel_call")
	}
	return s
}

func (p *parser) enqueueStep(at string, raw []byte) *EnqueueStep {
	s := &EnqueueStep{Spool: fsm.DefaultSpool}
	delay := 0
	p.object(at, raw, fields{
		"spool":         p.text(&s.Spool, fsm.ValidName, "the name of a spool"),
		"queue":         p.text(&s.Queue, fsm.ValidName, "the name of a queue"),
		"delay_seconds": p.integer(&delay, 0, fsm.MaxDelaySeconds),
	}, "queue")
	s.DelaySeconds = uint32(delay)
	return s
}

func (p *parser) httpStep(at string, raw []byte) *HTTPStep {
	s := &HTTPStep{Method: "POST"}
	p.object(at, raw, fields{
		"url":     p.text(&s.URL, isWebURL, "an http or https URL"),
		"method":  p.text(&s.Method, isFieldName, "an HTTP method"),
		"headers": func(at string, raw []byte) { s.Headers = p.headers(at, raw) },
	}, "url")
	return s
}

func (p *parser) callStep(at string, raw []byte) *CallStep {
	s := &CallStep{}
	p.object(at, raw, fields{"channel": p.text(&s.Channel, fsm.ValidName, "the name of a channel")}, "channel")
	return s
}

func isWebURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// isFieldName reports whether s is a token, as RFC 9110 wants field names and
// methods to be.
func isFieldName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func isFieldValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
