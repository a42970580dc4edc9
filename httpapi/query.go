package httpapi

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/spoolraft/spoolraft/fsm"
)

// param is a query parameter. Two that share a name differ in what they take.
type param uint8

const (
	paramWait param = iota
	paramHandle
	paramMode
	paramUID
	paramMatch
	paramLimit
	paramAfterName
	paramAfterID
	paramState
	paramQueue
	paramMax
	paramTo
	paramInstance

	paramCount
)

var paramNames = [paramCount]string{"waitSeconds", "handle", "mode", "uid", "match", "limit", "after", "after", "state", "queue", "max", "to", "instance"}

// paramSet says which query parameters an operation takes.
type paramSet uint16

func (p param) bit() paramSet { return 1 << p }

var listParams = paramMatch.bit() | paramLimit.bit() | paramAfterName.bit()

// Bounds of query parameters.
const (
	defaultWaitSeconds = 20
	maxWaitSeconds     = 60
	defaultLimit       = 100
	maxLimit           = 1000
	maxMatchBytes      = 1024
	maxQueueParams     = 1000
	maxUIDBytes        = 64
)

// queryValues are the parameters as they apply to a call.
type queryValues struct {
	given       paramSet
	waitSeconds int
	max         int
	handle      bool
	drain       bool
	uid         string
	match       string
	limit       int
	afterName   string
	afterID     fsm.MessageID
	state       fsm.MessageState
	queues      []string
	to          string // a node
	instance    string // of a node
}

// readQuery checks and keeps the query. What is unknown or given twice is
// refused rather than ignored, since it means that the caller expects
// something else than what would happen.
func (c *call) readQuery() *problem {
	c.query.waitSeconds, c.query.limit = defaultWaitSeconds, defaultLimit
	if c.r.URL.RawQuery == "" {
		return nil
	}
	for part := range strings.SplitSeq(c.r.URL.RawQuery, "&") {
		if part == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return badRequest("The query string is malformed: %% must be followed by two hexadecimal digits")
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return badRequest("The query string is malformed: %% must be followed by two hexadecimal digits")
		}
		if p := c.readParam(name, value); p != nil {
			return p
		}
	}
	return nil
}

func (c *call) readParam(name, value string) *problem {
	for p := range paramCount {
		if paramNames[p] != name || c.op.query&p.bit() == 0 {
			continue
		}
		if c.query.given&p.bit() != 0 && p != paramQueue {
			return badRequest("The query parameter %s is given more than once", name)
		}
		c.query.given |= p.bit()
		if fault := c.query.keep(p, value); fault != "" {
			return badRequest("The query parameter %s %s", name, fault)
		}
		return nil
	}
	if len(name) > maxUIDBytes {
		return badRequest("The call does not take one of the query parameters given")
	}
	return badRequest("The call does not take the query parameter %s", strconv.QuoteToASCII(name))
}

// keep stores the value of p, or says what is wrong with it.
func (q *queryValues) keep(p param, value string) (fault string) {
	switch p {
	case paramWait:
		n, ok := parseNumber(value, 0, maxWaitSeconds)
		if !ok {
			return "must be a whole number from 0 to " + strconv.Itoa(maxWaitSeconds)
		}
		q.waitSeconds = int(n)
	case paramMax:
		n, ok := parseNumber(value, 1, maxBatchItems)
		if !ok {
			return "must be a whole number from 1 to " + strconv.Itoa(maxBatchItems)
		}
		q.max = int(n)
	case paramLimit:
		n, ok := parseNumber(value, 1, maxLimit)
		if !ok {
			return "must be a whole number from 1 to " + strconv.Itoa(maxLimit)
		}
		q.limit = int(n)
	case paramHandle:
		if value != "true" && value != "false" {
			return "must be true or false"
		}
		q.handle = value == "true"
	case paramMode:
		if value != "force" && value != "drain" {
			return "must be force or drain"
		}
		q.drain = value == "drain"
	case paramUID:
		// Empty would match any queue, which is what uid is there to prevent.
		if value == "" || len(value) > maxUIDBytes || !printable(value) {
			return "must be the uid of a queue"
		}
		q.uid = value
	default:
		return q.keepFilter(p, value)
	}
	return ""
}

func (q *queryValues) keepFilter(p param, value string) (fault string) {
	switch p {
	case paramMatch:
		if len(value) > maxMatchBytes {
			return "must be an RE2 expression of at most " + strconv.Itoa(maxMatchBytes) + " bytes"
		}
		if _, err := regexp.Compile(value); err != nil {
			return "must be a valid RE2 expression"
		}
		q.match = value
	case paramAfterName:
		if value != "" && !fsm.ValidName(value) {
			return "must be the name of a queue, as next gave it"
		}
		q.afterName = value
	case paramAfterID:
		var ok bool
		if q.afterID, ok = parseID(value); value != "" && !ok {
			return "must be the id of a message, as next gave it"
		}
	case paramState:
		var ok bool
		if q.state, ok = parseState(value); !ok {
			return "must be delayed, visible, pending, failed or unavailable"
		}
	case paramTo:
		if !validNode(value) {
			return "must be the name of a node"
		}
		q.to = value
	case paramInstance:
		// Empty would match any, which is what instance is there to prevent.
		if !validNode(value) {
			return "must be the instance of a node"
		}
		q.instance = value
	case paramQueue:
		if !fsm.ValidName(value) {
			return "must be the name of a queue"
		}
		if len(q.queues) == maxQueueParams {
			return "may be given at most " + strconv.Itoa(maxQueueParams) + " times"
		}
		q.queues = append(q.queues, value)
	}
	return ""
}

// parseID reads N-M.
func parseID(s string) (fsm.MessageID, bool) {
	left, right, _ := strings.Cut(s, "-")
	q, ok := parseIDPart(left)
	m, ok2 := parseIDPart(right)
	if !ok || !ok2 {
		return fsm.MessageID{}, false
	}
	return fsm.MessageID{Queue: q, Message: m}, true
}

// parseIDPart reads a number as formatID writes it.
func parseIDPart(s string) (uint64, bool) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// stateNames are the states of a message in answers.
var stateNames = [...]string{
	fsm.StateDelayed:     "delayed",
	fsm.StateVisible:     "visible",
	fsm.StatePending:     "pending",
	fsm.StateFailed:      "failed",
	fsm.StateUnavailable: "unavailable",
}

func parseState(s string) (fsm.MessageState, bool) {
	for state, name := range stateNames {
		if name == s && s != "" {
			return fsm.MessageState(state), true
		}
	}
	return fsm.AnyState, false
}
