package channel_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/channel"
)

func TestAWholeChannelIsReadAsItIsWritten(t *testing.T) {
	got, err := channel.Parse([]byte(`
		{"deduplication": {"header": "idempotency-key", "window_secs": 300, "connector": "dedup-store", "on_backend_error": "deny"},
		 "steps": [{"http": {"url": "http://127.0.0.1:9000/charge", "headers": {"X-A": "b"}}},
		           {"enqueue": {"spool": "default", "queue": "receipts", "delay_seconds": 3}}, {"channel_call": {"channel": "next"}}],
		 "timeout_ms": 10000, "max_concurrency": 64, "rate_limit": {"per_second": 5, "burst": 10}, "max_body_bytes": 1000}`))
	want := &channel.Config{
		Deduplication: &channel.Deduplication{Header: "Idempotency-Key", Window: 5 * time.Minute, Connector: "dedup-store", Deny: true},
		Steps: []channel.Step{
			{HTTP: &channel.HTTPStep{URL: "http://127.0.0.1:9000/charge", Method: "POST", Headers: map[string]string{"X-A": "b"}}},
			{Enqueue: &channel.EnqueueStep{Spool: "default", Queue: "receipts", DelaySeconds: 3}},
			{Call: &channel.CallStep{Channel: "next"}},
		},
		Timeout: 10 * time.Second, MaxConcurrency: 64, RateLimit: &channel.RateLimit{PerSecond: 5, Burst: 10}, MaxBodyBytes: 1000,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDefaults(t *testing.T) {
	c, err := channel.Parse([]byte(`{"deduplication": {"header": "X-Key"}, "steps": [{"enqueue": {"queue": "q"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Deduplication; d.Window != 300*time.Second || d.Deny || d.Connector != "" {
		t.Errorf("deduplication %+v", d)
	}
	if c.Timeout != 30*time.Second || c.MaxConcurrency != 0 || c.RateLimit != nil {
		t.Errorf("channel %+v", c)
	}
}

const someSteps = `"steps": [{"enqueue": {"queue": "q"}}]`

func TestWhatIsWrongIsNamedByItsPath(t *testing.T) {
	with := func(field string) string { return `{` + someSteps + `, ` + field + `}` }
	steps := func(step string) string { return `{"steps": [{"enqueue": {"queue": "q"}}, ` + step + `]}` }
	for _, c := range []struct{ name, document, path string }{
		{"no JSON", `{`, "$"},
		{"no object", `[]`, "$"},
		{"something after it", `{` + someSteps + `} {}`, "$"},
		{"no steps", `{}`, "$.steps"},
		{"empty steps", `{"steps": []}`, "$.steps"},
		{"steps are null", `{"steps": null}`, "$.steps"},
		{"unknown field", with(`"colour": 1`), "$.colour"},
		{"another case", with(`"Timeout_ms": 1`), "$.Timeout_ms"},
		{"twice", with(someSteps), "$.steps"},
		{"unknown in deduplication", with(`"deduplication": {"header": "K", "window": 5}`), "$.deduplication.window"},
		{"no header", with(`"deduplication": {}`), "$.deduplication.header"},
		{"empty header", with(`"deduplication": {"header": ""}`), "$.deduplication.header"},
		{"illegal header", with(`"deduplication": {"header": "no spaces"}`), "$.deduplication.header"},
		{"header with a colon", with(`"deduplication": {"header": "Key:"}`), "$.deduplication.header"},
		{"header is null", with(`"deduplication": {"header": null}`), "$.deduplication.header"},
		{"window of 0", with(`"deduplication": {"header": "K", "window_secs": 0}`), "$.deduplication.window_secs"},
		{"window too long", with(`"deduplication": {"header": "K", "window_secs": 604801}`), "$.deduplication.window_secs"},
		{"window with a fraction", with(`"deduplication": {"header": "K", "window_secs": 1.5}`), "$.deduplication.window_secs"},
		{"window in words", with(`"deduplication": {"header": "K", "window_secs": "5"}`), "$.deduplication.window_secs"},
		{"unknown policy", with(`"deduplication": {"header": "K", "on_backend_error": "Deny"}`), "$.deduplication.on_backend_error"},
		{"connector without a name", with(`"deduplication": {"header": "K", "connector": ""}`), "$.deduplication.connector"},
		{"deduplication is null", with(`"deduplication": null`), "$.deduplication"},
		{"unknown step", steps(`{"sleep": {}}`), "$.steps[1].sleep"},
		{"step of two kinds", steps(`{"enqueue": {"queue": "q"}, "channel_call": {"channel": "c"}}`), "$.steps[1]"},
		{"step of no kind", steps(`{}`), "$.steps[1]"},
		{"no URL", steps(`{"http": {}}`), "$.steps[1].http.url"},
		{"URL of a file", steps(`{"http": {"url": "file:///etc/passwd"}}`), "$.steps[1].http.url"},
		{"unknown in http", steps(`{"http": {"url": "http://h/", "retries": 3}}`), "$.steps[1].http.retries"},
		{"illegal header of a request", steps(`{"http": {"url": "http://h/", "headers": {"a b": "c"}}}`), "$.steps[1].http.headers.a b"},
		{"header value with a line", steps(`{"http": {"url": "http://h/", "headers": {"A": "b\nc"}}}`), "$.steps[1].http.headers.A"},
		{"no queue", steps(`{"enqueue": {}}`), "$.steps[1].enqueue.queue"},
		{"delay too long", steps(`{"enqueue": {"queue": "q", "delay_seconds": 604801}}`), "$.steps[1].enqueue.delay_seconds"},
		{"no channel", steps(`{"channel_call": {}}`), "$.steps[1].channel_call.channel"},
		{"no time", with(`"timeout_ms": 0`), "$.timeout_ms"},
		{"no concurrency", with(`"max_concurrency": 0`), "$.max_concurrency"},
		{"rate without a burst", with(`"rate_limit": {"per_second": 1}`), "$.rate_limit.burst"},
		{"body too large", with(`"max_body_bytes": 33554433`), "$.max_body_bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := channel.Parse([]byte(c.document))
			var wrong *channel.ConfigError
			if !errors.As(err, &wrong) || wrong.Path != c.path {
				t.Errorf("got %v, want path %s", err, c.path)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"deduplication": {"header": "K"}, "steps": [{"http": {"url": "http://h/"}}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		c, err := channel.Parse(document)
		var wrong *channel.ConfigError
		if (c == nil) != (err != nil) || err != nil && !errors.As(err, &wrong) {
			t.Fatalf("%q gives %+v, %v", document, c, err)
		}
	})
}
