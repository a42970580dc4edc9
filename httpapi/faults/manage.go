package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// rulesPath is where the rules are: the collection, and below it each by its
// id.
const rulesPath = "/faults"

const maxRuleBytes = 64 << 10

// ruleJSON is a rule with what it has done.
type ruleJSON struct {
	ID string `json:"id"`
	spec
	Matched         uint64 `json:"matched"`
	Injected        uint64 `json:"injected"`
	HiddenSuccesses uint64 `json:"hiddenSuccesses"`
}

func (r *rule) json() ruleJSON {
	return ruleJSON{ID: strconv.FormatUint(r.id, 10), spec: r.spec, Matched: r.matched, Injected: r.injected, HiddenSuccesses: r.hidden}
}

// errorJSON has the form of the API's errors.
type errorJSON struct {
	Kind    string `json:"kind,omitempty"`
	Message string `json:"message"`
}

// manage answers the calls about rules.
func (i *Injector) manage(api http.Handler, w http.ResponseWriter, r *http.Request) {
	if !authorized(api, w, r) {
		return
	}
	if r.URL.RawQuery != "" {
		refuse(w, http.StatusBadRequest, "", "This call takes no query parameters. Nothing was changed; leave them out.")
		return
	}
	id, one := strings.CutPrefix(r.URL.Path, rulesPath+"/")
	switch {
	case !one && r.Method == http.MethodGet:
		answer(w, http.StatusOK, map[string]any{"items": i.list()})
	case !one && r.Method == http.MethodPost:
		i.add(w, r)
	case !one && r.Method == http.MethodDelete:
		i.clear()
		w.WriteHeader(http.StatusNoContent)
	case one && r.Method == http.MethodDelete:
		i.remove(w, id)
	default:
		allow := "GET, POST, DELETE"
		if one {
			allow = "DELETE"
		}
		w.Header().Set("Allow", allow)
		refuse(w, http.StatusMethodNotAllowed, "", "This path does not take that method, so nothing was changed. The Allow header lists the methods that it takes.")
	}
}

// authorized asks the API about the key, and passes its refusal on. The call
// that it asks with needs the admin scope; with that it is refused for the name
// of its queue, before the API looks at anything.
func authorized(api http.Handler, w http.ResponseWriter, r *http.Request) bool {
	question := r.Clone(r.Context())
	question.Method, question.Body, question.ContentLength = http.MethodPut, http.NoBody, 0
	question.URL.Path, question.URL.RawPath, question.URL.RawQuery = "/v1/spools/default/queues/!", "", ""
	question.Header = http.Header{"Authorization": r.Header["Authorization"]}
	said := hold(w)
	api.ServeHTTP(said, question)
	if said.status == http.StatusBadRequest {
		return true
	}
	said.release()
	return false
}

func (i *Injector) list() []ruleJSON {
	i.mu.Lock()
	defer i.mu.Unlock()
	items := make([]ruleJSON, len(i.rules))
	for n, r := range i.rules {
		items[n] = r.json()
	}
	return items
}

func (i *Injector) add(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRuleBytes))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, "", fmt.Sprintf("The body is larger than %d bytes, so no rule was added.", maxRuleBytes))
		return
	} else if err != nil {
		refuse(w, http.StatusBadRequest, "", "The body ended before its declared length, so no rule was added.")
		return
	}
	s, err := parseSpec(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "", "This is not a rule that can be added: "+err.Error()+". Nothing was changed; correct it and send it again.")
		return
	}
	added, ok := i.addRule(s)
	if !ok {
		refuse(w, http.StatusConflict, "", fmt.Sprintf("There are %d rules already, so this one was not added. Remove some first.", maxRules))
		return
	}
	i.logger.Warn("a fault rule was added", "rule", added.ID, "fault", s.Fault, "when", s.When, "operation", s.Operation)
	answer(w, http.StatusCreated, added)
}

func (i *Injector) addRule(s spec) (ruleJSON, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.rules) >= maxRules {
		return ruleJSON{}, false
	}
	i.lastID++
	r := newRule(i.lastID, s)
	i.rules = append(i.rules, r)
	return r.json(), true
}

func (i *Injector) clear() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = nil
	i.logger.Warn("all fault rules were removed")
}

func (i *Injector) remove(w http.ResponseWriter, id string) {
	i.mu.Lock()
	had := len(i.rules)
	i.rules = slices.DeleteFunc(i.rules, func(r *rule) bool { return strconv.FormatUint(r.id, 10) == id })
	removed := len(i.rules) < had
	i.mu.Unlock()
	if !removed {
		refuse(w, http.StatusNotFound, "rule_not_found", "There is no rule of this id, so nothing was changed. GET "+rulesPath+" lists the rules.")
		return
	}
	i.logger.Warn("a fault rule was removed", "rule", id)
	w.WriteHeader(http.StatusNoContent)
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	answer(w, status, errorJSON{Kind: kind, Message: message})
}

// answer encodes one of this package's own types, which cannot fail.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
