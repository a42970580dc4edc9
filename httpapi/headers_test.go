package httpapi

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestDelay(t *testing.T) {
	for value, status := range map[string]int{
		"0": 201, "1": 201, "604800": 201, "007": 201,
		"604801": 400, "-1": 400, "+1": 400, "1.0": 400, "1e3": 400, "": 400, " ": 400, "1 2": 400, "0x1": 400, "\u0661": 400,
		"99999999999999999999": 400, "4294967296": 400,
	} {
		b := &fakeBroker{}
		w := do(newTestServer(t, b), "POST", testQueue+"/send", "x", headerDelay, value)
		if w.Code != status {
			t.Errorf("%q: %d", value, w.Code)
		}
		if proposals, _ := b.asked(); (proposals > 0) != (status == 201) {
			t.Errorf("%q: %d proposals", value, proposals)
		}
		if status == 400 {
			wantProblem(t, w, 400, "")
		}
	}
	b := &fakeBroker{}
	do(newTestServer(t, b), "POST", testQueue+"/send", "x", headerDelay, "604800")
	if got := b.proposed().DelaySeconds; got != fsm.MaxDelaySeconds {
		t.Errorf("delay %d", got)
	}
}

func TestDedupString(t *testing.T) {
	long := strings.Repeat("k", 256)
	for value, ok := range map[string]bool{
		"k": true, long: true, "a b": true, "~!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}": true, "a,b": true,
		"": false, long + "k": false, "k\u00e9": false, "k\x7f": false, "k\t1": false, "k\x00": false, "\xff": false,
	} {
		b := &fakeBroker{}
		w := do(newTestServer(t, b), "POST", testQueue+"/send", "x", headerDedupString, value)
		if !ok {
			wantProblem(t, w, 400, "")
			continue
		}
		wantStatus(t, w, 201)
		if c := b.proposed(); !c.Keyed || c.Key != fsm.FingerprintOf(value) {
			t.Errorf("%q: keyed %v, fingerprint %x", value, c.Keyed, c.Key)
		}
	}
}

func TestDedupHash(t *testing.T) {
	fingerprint := fsm.FingerprintOf("order-4711")
	lower := hex.EncodeToString(fingerprint[:])
	for value, ok := range map[string]bool{
		lower: true, strings.ToUpper(lower): true, lower[:16] + strings.ToUpper(lower[16:]): true,
		"": false, lower[:31]: false, lower + "0": false, lower[:31] + "g": false, "0x" + lower[:30]: false, lower[:15] + " " + lower[16:]: false,
	} {
		b := &fakeBroker{}
		w := do(newTestServer(t, b), "POST", testQueue+"/send", "x", headerDedupHash, value)
		if !ok {
			wantProblem(t, w, 400, "")
			continue
		}
		wantStatus(t, w, 201)
		if c := b.proposed(); !c.Keyed || c.Key != fingerprint {
			t.Errorf("%q: keyed %v, fingerprint %x", value, c.Keyed, c.Key)
		}
	}
}

func TestHeaderCombinations(t *testing.T) {
	lease, handle := sealed(fsm.Lease), sealed(fsm.Handle)
	hash := strings.Repeat("0", 32)
	const spool = "/v1/spools/default"
	tests := []struct {
		name, target string
		h            header
		status       int
		kind         string
	}{
		{"dedup twice", testQueue + "/send", header{headerDedupString, "a", headerDedupString, "a"}, 400, ""},
		{"hash twice", testQueue + "/send", header{headerDedupHash, hash, headerDedupHash, hash}, 400, ""},
		{"both dedup headers", testQueue + "/send", header{headerDedupString, "a", headerDedupHash, hash}, 400, ""},
		{"both, one empty", testQueue + "/send", header{headerDedupString, "", headerDedupHash, hash}, 400, ""},
		{"delay twice", testQueue + "/send", header{headerDelay, "1", headerDelay, "1"}, 400, ""},
		{"no lease", spool + "/ack", nil, 400, "invalid_token"},
		{"empty lease", spool + "/ack", header{headerLease, ""}, 400, "invalid_token"},
		{"lease twice", spool + "/ack", header{headerLease, lease, headerLease, lease}, 400, "invalid_token"},
		{"handle as lease", spool + "/ack", header{headerLease, handle}, 400, "invalid_token"},
		{"lease as handle", spool + "/inspect", header{headerHandle, lease}, 400, "invalid_token"},
		{"handle instead of lease", spool + "/ack", header{headerHandle, handle}, 400, "unknown_header"},
		{"lease instead of handle", spool + "/recover", header{headerLease, lease}, 400, "unknown_header"},
		{"discard with none", spool + "/discard", nil, 400, "invalid_token"},
		{"discard with both", spool + "/discard", header{headerLease, lease, headerHandle, handle}, 400, ""},
		{"discard, lease in the handle", spool + "/discard", header{headerHandle, lease}, 400, "invalid_token"},
		{"target missing", spool + "/ack-and-send", header{headerLease, lease}, 400, ""},
		{"target twice", spool + "/ack-and-send", header{headerLease, lease, headerQueue, "a", headerQueue, "a"}, 400, ""},
		{"target no name", spool + "/ack-and-send", header{headerLease, lease, headerQueue, "a/b"}, 400, ""},
		{"target too long", spool + "/ack-and-send", header{headerLease, lease, headerQueue, strings.Repeat("q", 129)}, 400, ""},
		{"delay on ack", spool + "/ack", header{headerLease, lease, headerDelay, "1"}, 400, "unknown_header"},
		{"ack", spool + "/ack", header{headerLease, lease}, 204, ""},
		{"discard by lease", spool + "/discard", header{headerLease, lease}, 204, ""},
		{"discard by handle", spool + "/discard", header{headerHandle, handle}, 204, ""},
		{"release", spool + "/release", header{headerLease, lease, headerDelay, "5"}, 204, ""},
		{"recover", spool + "/recover", header{headerHandle, handle, headerDelay, "5"}, 204, ""},
		{"ack-and-send", spool + "/ack-and-send", header{headerLease, lease, headerQueue, strings.Repeat("q", 128), headerDedupHash, hash}, 201, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := &fakeBroker{}
			w := do(newTestServer(t, b), "POST", test.target, "", test.h...)
			if test.status < 300 {
				wantStatus(t, w, test.status)
				return
			}
			wantProblem(t, w, test.status, test.kind)
			if _, all := b.asked(); all != 0 {
				t.Errorf("the broker was asked")
			}
		})
	}
}

// TestUnknownHeaders tries, on every call, every Spooler header that it does
// not take, near misses and answers' headers.
func TestUnknownHeaders(t *testing.T) {
	names := []string{headerDelay, headerDedupString, headerDedupHash, headerLease, headerHandle, headerQueue,
		headerMessageID, headerLeaseExpiresAt, headerRetries, headerState, "Spooler-", "Spooler-Dedup", "Spooler-Dedup-Strings",
		"Spooler-Delay-Second", "Spooler-X-Dedup-String", "SPOOLER-dEDUP-sTRINGS", "spooler-foo"}
	s := newTestServer(t, &fakeBroker{err: fsm.ErrNotApplied})
	for i := range operations {
		op := &operations[i]
		if op.public {
			continue
		}
		target := strings.NewReplacer(":spool", "default", ":queue", "orders", ":node", "n1").Replace(op.path)
		for _, name := range names {
			if headerBit(name)&op.headers != 0 {
				continue
			}
			got := wantProblem(t, do(s, op.method, target, "", name, "1"), 400, "unknown_header")
			if named := got.Details.(map[string]any)["header"].(string); !strings.EqualFold(named, name) {
				t.Errorf("%s: %s is named %s", op.name, name, named)
			}
		}
	}
	// Only the prefix is ours.
	wantStatus(t, do(newTestServer(t, &fakeBroker{}), "POST", testQueue+"/send", "", "X-Spooler-Foo", "1", "Spooler_Foo", "1", "Spoolerfoo", "1"), 201)
	// Taken names are taken in any case.
	b := &fakeBroker{}
	do(newTestServer(t, b), "POST", testQueue+"/send", "", "sPOOLER-dedup-STRING", "k")
	if !b.proposed().Keyed {
		t.Error("the header was not taken in another case")
	}
	// Of several, always the same is named.
	for range 20 {
		w := do(s, "POST", testQueue+"/send", "", "Spooler-C", "1", "Spooler-A", "1", "Spooler-B", "1")
		if got := wantProblem(t, w, 400, "unknown_header"); got.Details.(map[string]any)["header"] != "Spooler-A" {
			t.Fatalf("%v is named", got.Details)
		}
	}
}

// TestAlteredTokens flips every bit of a token's bytes, and cuts and extends
// its text.
func TestAlteredTokens(t *testing.T) {
	b := &fakeBroker{}
	s := newTestServer(t, b)
	token := fsm.Sealer{}.Seal(fsm.Token{Sort: fsm.Lease, Moves: math.MaxUint32, Queue: math.MaxUint64, Message: 77})
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	altered := []string{token + "A", token + "=", token[1:], token[:len(token)-1], strings.ToUpper(token), " x" + token, token + token,
		strings.Repeat("A", 60000), "\xff\xff", fsm.Sealer{}.Seal(fsm.Token{})}
	for i := range len(raw) * 8 {
		flipped := append([]byte(nil), raw...)
		flipped[i/8] ^= 1 << (i % 8)
		altered = append(altered, base64.RawURLEncoding.EncodeToString(flipped))
	}
	for _, text := range altered {
		wantProblem(t, do(s, "POST", "/v1/spools/default/ack", "", headerLease, text), 400, "invalid_token")
	}
	if proposals, _ := b.asked(); proposals != 0 {
		t.Fatal("an altered token was proposed")
	}
	wantStatus(t, do(s, "POST", "/v1/spools/default/ack", "", headerLease, token), 204)
	if got := b.proposed().Token; got.Moves != math.MaxUint32 || got.Queue != math.MaxUint64 || got.Message != 77 {
		t.Errorf("%+v", got)
	}
}

// TestNoSecretYet: a node that can't make or open tokens takes no call that
// needs one.
func TestNoSecretYet(t *testing.T) {
	b := &fakeBroker{noSecret: true, result: fsm.Result{ID: fsm.MessageID{Queue: 1, Message: 1}}}
	s := newTestServer(t, b)
	lease := []string{headerLease, sealed(fsm.Lease)}
	wantProblem(t, do(s, "POST", "/v1/spools/default/ack", "", lease...), 503, "")
	wantProblem(t, do(s, "POST", testQueue+"/recv", ""), 503, "")
	wantProblem(t, do(s, "POST", testQueue+"/send?handle=true", ""), 503, "")
	wantProblem(t, do(s, "GET", testQueue+"/messages?handle=true", ""), 503, "")
	if _, all := b.asked(); all != 0 {
		t.Fatal("the broker was asked")
	}
	wantStatus(t, do(s, "POST", testQueue+"/send", ""), 201)
}

// TestOrderOfChecks sends a call that is wrong in every way and puts one thing
// right at a time.
func TestOrderOfChecks(t *testing.T) {
	b := &fakeBroker{state: fsm.CodeSpoolNotFound, result: fsm.Result{Code: fsm.CodeQueueNotFound}}
	s := newTestServer(t, b, func(c *Config) {
		c.AnyKey, c.Keys, c.MaxPayloadBytes = false, parseTestKeys(t), 10
	})
	target, body := "/v1/spools/a.b/queues/c.d/send?x=1", "more than ten bytes"
	h := map[string]string{"Authorization": "Bearer nobody", "Spooler-Foo": "1", headerDedupHash: "1"}
	chunked := true
	step := func(status int, kind string) {
		t.Helper()
		r := newRequest("POST", target, body, nil)
		for name, value := range h {
			r.Header.Set(name, value)
		}
		if chunked {
			r.ContentLength = -1
		}
		w := serve(s, r)
		wantProblem(t, w, status, kind)
	}
	step(401, "")
	h["Authorization"] = "Bearer old-key"
	step(403, "")
	h["Authorization"] = "Bearer read-key"
	step(403, "")
	h["Authorization"] = "Bearer send-key"
	step(400, "")
	target = "/v1/spools/default/queues/c.d/send?x=1"
	step(400, "")
	target = "/v1/spools/default/queues/orders/send?x=1"
	step(404, "spool_not_found")
	b.state = fsm.CodeSpoolSuspended
	step(402, "")
	b.state = fsm.CodeOK
	step(400, "unknown_header")
	delete(h, "Spooler-Foo")
	step(400, "")
	delete(h, headerDedupHash)
	step(400, "")
	target = "/v1/spools/default/queues/orders/send"
	step(411, "")
	chunked = false
	step(413, "payload_too_large")
	if proposals, _ := b.asked(); proposals != 0 {
		t.Fatal("something was proposed")
	}
	body = "ten  bytes"
	step(404, "queue_not_found")
	if proposals, _ := b.asked(); proposals != 1 {
		t.Fatal("nothing was proposed")
	}
}
