package httpapi

import (
	"encoding/hex"
	"strings"

	"github.com/spoolraft/spoolraft/fsm"
)

// The contract's headers, in the canonical form that net/http keys its maps by.
const (
	headerPrefix         = "Spooler-"
	headerDelay          = "Spooler-Delay-Seconds"
	headerDedupString    = "Spooler-Dedup-String"
	headerDedupHash      = "Spooler-Dedup-Hash"
	headerLease          = "Spooler-Lease"
	headerHandle         = "Spooler-Handle"
	headerQueue          = "Spooler-Queue"
	headerMessageID      = "Spooler-Message-Id"
	headerLeaseExpiresAt = "Spooler-Lease-Expires-At"
	headerRetries        = "Spooler-Message-Retries"
	headerState          = "Spooler-Message-State"
)

const maxDedupStringBytes = 256

// headerSet says which of the contract's headers an operation takes.
type headerSet uint8

const (
	takesDelay headerSet = 1 << iota
	takesDedup           // either of the two dedup headers
	takesLease
	takesHandle
	takesQueue
)

// headerBit is the bit of a header in canonical form, 0 where no operation
// takes it.
func headerBit(name string) headerSet {
	switch name {
	case headerDelay:
		return takesDelay
	case headerDedupString, headerDedupHash:
		return takesDedup
	case headerLease:
		return takesLease
	case headerHandle:
		return takesHandle
	case headerQueue:
		return takesQueue
	default:
		return 0
	}
}

// readHeaders checks and keeps the call's Spooler headers.
func (c *call) readHeaders() *problem {
	takes := c.op.headers
	if p := c.refuseUnknownHeaders(takes); p != nil || takes == 0 {
		return p
	}
	if takes&(takesLease|takesHandle) != 0 {
		if p := c.readTokens(takes); p != nil {
			return p
		}
	}
	if takes&takesQueue != 0 {
		if p := c.readTarget(); p != nil {
			return p
		}
	}
	if takes&takesDelay != 0 {
		if p := c.readDelay(); p != nil {
			return p
		}
	}
	if takes&takesDedup != 0 {
		return c.readDedup()
	}
	return nil
}

// refuseUnknownHeaders names the first by name, so that the answer does not
// depend on the order of a map.
func (c *call) refuseUnknownHeaders(takes headerSet) *problem {
	unknown := ""
	for name := range c.r.Header {
		if len(name) < len(headerPrefix) || !strings.EqualFold(name[:len(headerPrefix)], headerPrefix) {
			continue
		}
		if headerBit(name)&takes == 0 && (unknown == "" || name < unknown) {
			unknown = name
		}
	}
	if unknown != "" {
		return problemUnknownHeader(unknown)
	}
	return nil
}

// readTokens opens the lease or the handle. An operation that takes both takes
// exactly one of them.
func (c *call) readTokens(takes headerSet) *problem {
	leases, handles := c.r.Header[headerLease], c.r.Header[headerHandle]
	if len(leases) > 0 && len(handles) > 0 {
		return badRequest("The call carries both %s and %s and takes exactly one of them", headerLease, headerHandle)
	}
	sort, values := fsm.Lease, leases
	if takes&takesLease == 0 || len(handles) > 0 {
		sort, values = fsm.Handle, handles
	}
	if len(values) != 1 {
		return problemInvalidToken
	}
	if !c.needSealer() {
		return problemUnavailable
	}
	var err error
	if c.token, err = c.sealer.Open(sort, values[0]); err != nil {
		return problemInvalidToken
	}
	return nil
}

func (c *call) readTarget() *problem {
	text, given, p := c.header(headerQueue)
	switch {
	case p != nil:
		return p
	case !given:
		return badRequest("The header %s, which names the queue to send to, is missing", headerQueue)
	case !fsm.ValidName(text):
		return badRequest("The header %s is no name of a queue: a name has 1 to %d characters of A-Z a-z 0-9 _ : -", headerQueue, fsm.MaxNameBytes)
	}
	c.queue = text
	return nil
}

func (c *call) readDelay() *problem {
	text, given, p := c.header(headerDelay)
	if p != nil || !given {
		return p
	}
	n, ok := parseNumber(text, 0, fsm.MaxDelaySeconds)
	if !ok {
		return badRequest("The header %s must be a whole number from 0 to %d", headerDelay, fsm.MaxDelaySeconds)
	}
	c.delaySeconds = uint32(n)
	return nil
}

func (c *call) readDedup() *problem {
	text, textGiven, p := c.header(headerDedupString)
	if p != nil {
		return p
	}
	digest, digestGiven, p := c.header(headerDedupHash)
	switch {
	case p != nil:
		return p
	case textGiven && digestGiven:
		return badRequest("The call carries both %s and %s and takes at most one of them", headerDedupString, headerDedupHash)
	case textGiven:
		if !validDedupString(text) {
			return badRequest("The header %s must be 1 to %d printable ASCII characters", headerDedupString, maxDedupStringBytes)
		}
		c.keyed, c.dedupKey = true, fsm.FingerprintOf(text)
	case digestGiven:
		if c.dedupKey, c.keyed = parseFingerprint(digest); !c.keyed {
			return badRequest("The header %s must be 32 hexadecimal digits", headerDedupHash)
		}
	}
	return nil
}

func parseFingerprint(digits string) (key fsm.Fingerprint, ok bool) {
	if len(digits) != hex.EncodedLen(len(key)) {
		return key, false
	}
	_, err := hex.Decode(key[:], []byte(digits))
	return key, err == nil
}

func validDedupString(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxDedupStringBytes
}

// header returns the value of a header that may be given once.
func (c *call) header(name string) (value string, given bool, p *problem) {
	switch values := c.r.Header[name]; len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", false, badRequest("The header %s is given more than once", name)
	}
}

// maxNumberDigits is more than any number of the contract has.
const maxNumberDigits = 10

// parseNumber reads plain decimal digits: no sign, no space, no point.
func parseNumber(s string, least, most uint64) (uint64, bool) {
	if s == "" || len(s) > maxNumberDigits {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, n >= least && n <= most
}
