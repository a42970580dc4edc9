//go:build !race

// The validator is large, and compiling it for the race detector takes longer
// than everything else; `make test` runs these tests without it.

package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/responses"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

// contract is the parsed document, for every test of the package.
type contract struct {
	mu       sync.Mutex
	document libopenapi.Document
	model    *v3.Document
	answers  responses.ResponseBodyValidator
}

var loadContract = sync.OnceValue(func() *contract {
	document, err := libopenapi.NewDocument([]byte(openAPIDocument))
	if err != nil {
		panic(err)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		panic(err)
	}
	return &contract{document: document, model: &model.Model, answers: responses.NewResponseBodyValidator(&model.Model)}
})

// template is the document's form of a route.
func template(path string) string {
	return strings.NewReplacer(":spool", "{spool}", ":queue", "{queue}", ":node", "{node}").Replace(path)
}

// operationOf finds the route that a request meets, nil for none.
func operationOf(r *http.Request) *operation {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	for i := range segments {
		segments[i], _ = url.PathUnescape(segments[i])
	}
	for i := range operations {
		op := &operations[i]
		pattern := strings.Split(op.path, "/")
		if op.method == r.Method && slices.EqualFunc(pattern, segments, func(p, s string) bool {
			return p == s || p != "" && p[0] == ':' && s != ""
		}) {
			return op
		}
	}
	return nil
}

func holdAgainstDocument(r *http.Request, w *httptest.ResponseRecorder) error {
	return loadContract().check(r, w)
}

// check compares an answer with what the document says about it.
func (c *contract) check(r *http.Request, w *httptest.ResponseRecorder) error {
	op := operationOf(r)
	if op == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	item, path := c.model.Paths.PathItems.GetOrZero(template(op.path)), template(op.path)
	if item == nil {
		return fmt.Errorf("%s is not in the document", path)
	}
	response := w.Result()
	response.Body = io.NopCloser(bytes.NewReader(w.Body.Bytes()))
	if ok, problems := c.answers.ValidateResponseBodyWithPathItem(r, response, item, path); !ok {
		return fmt.Errorf("%s %s: %d %v: %v: %s", r.Method, path, w.Code, response.Header, problems[0], w.Body)
	}
	declared := item.GetOperations().GetOrZero(strings.ToLower(r.Method)).Responses.Codes.GetOrZero(fmt.Sprint(w.Code))
	if declared.Content == nil && w.Body.Len() > 0 {
		return fmt.Errorf("%s %s: %d has a body: %s", r.Method, path, w.Code, w.Body)
	}
	for name := range response.Header {
		if !strings.HasPrefix(name, headerPrefix) && name != "Retry-After" && name != "Www-Authenticate" {
			continue
		}
		known := false
		for header := range declared.Headers.KeysFromOldest() {
			known = known || strings.EqualFold(header, name)
		}
		if !known {
			return fmt.Errorf("%s %s: %d has the header %s", r.Method, path, w.Code, name)
		}
	}
	return nil
}

func TestDocumentIsValid(t *testing.T) {
	c := loadContract()
	v, errs := validator.NewValidator(c.document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, problems := v.ValidateDocument(); !ok {
		for _, p := range problems {
			t.Errorf("%v %v", p, p.SchemaValidationErrors)
		}
	}
	if c.model.Version != "3.1.0" {
		t.Errorf("version %s", c.model.Version)
	}
}

// TestDocumentMatchesRoutes compares routes, parameters, bodies, scopes and
// security in both directions.
func TestDocumentMatchesRoutes(t *testing.T) {
	c := loadContract()
	routes := map[string]*operation{}
	for i := range operations {
		op := &operations[i]
		routes[strings.ToLower(op.method)+" "+template(op.path)] = op
	}
	ids := map[string]bool{}
	for path, item := range c.model.Paths.PathItems.FromOldest() {
		for method, described := range item.GetOperations().FromOldest() {
			op := routes[method+" "+path]
			if op == nil {
				t.Errorf("%s %s is described and not served", method, path)
				continue
			}
			delete(routes, method+" "+path)
			if ids[described.OperationId] || described.OperationId == "" || described.Summary == "" {
				t.Errorf("%s %s: operationId %q", method, path, described.OperationId)
			}
			ids[described.OperationId] = true
			compareOperation(t, op, item, described)
		}
	}
	for route := range routes {
		t.Errorf("%s is served and not described", route)
	}
	// The router serves what the table says.
	served := map[string]bool{}
	for _, route := range newTestServer(t, &fakeBroker{}).echo.Routes() {
		served[route.Method+" "+route.Path] = true
	}
	for i := range operations {
		if op := &operations[i]; !served[op.method+" "+op.path] {
			t.Errorf("%s %s is not served", op.method, op.path)
		}
	}
}

func compareOperation(t *testing.T, op *operation, item *v3.PathItem, described *v3.Operation) {
	t.Helper()
	var headers headerSet
	query, path := map[string]bool{}, ""
	for _, p := range append(slices.Clone(item.Parameters), described.Parameters...) {
		switch p.In {
		case "header":
			headers |= headerBit(p.Name)
			if required := p.Required != nil && *p.Required; required == (p.Name == headerDelay || headerBit(p.Name) == takesDedup || op.name == "discard") {
				t.Errorf("%s: header %s is required: %v", op.name, p.Name, required)
			}
		case "query":
			query[p.Name] = true
		case "path":
			path += "/:" + p.Name
		}
	}
	if headers != op.headers {
		t.Errorf("%s: headers %b, want %b", op.name, headers, op.headers)
	}
	for p := range paramCount {
		taken := op.query&p.bit() != 0
		if taken && !query[paramNames[p]] {
			t.Errorf("%s: the query parameter %s is not described", op.name, paramNames[p])
		}
		if taken {
			delete(query, paramNames[p])
		}
	}
	if len(query) > 0 {
		t.Errorf("%s: described and not taken: %v", op.name, query)
	}
	if strings.Count(op.path, ":") != strings.Count(path, ":") {
		t.Errorf("%s: path parameters %s", op.name, path)
	}
	if (described.RequestBody != nil) != (op.body != bodyNone) {
		t.Errorf("%s: request body", op.name)
	}
	if op.public {
		if described.Security == nil || len(described.Security) != 0 {
			t.Errorf("%s: a key is asked for", op.name)
		}
		return
	}
	for _, n := range scopeNames {
		if named := strings.Contains(described.Description, "`"+n.name+"`"); named != (op.scope&n.scope != 0) {
			t.Errorf("%s: scope %s is named: %v", op.name, n.name, named)
		}
	}
	for _, status := range []string{"400", "401", "402", "403", "404", "411", "500", "503"} {
		if status == "402" && op.cluster {
			continue // no spool that could be suspended
		}
		if described.Responses.Codes.GetOrZero(status) == nil {
			t.Errorf("%s: %s is not described", op.name, status)
		}
	}
}

// TestDocumentNamesEveryKind: the kinds of the error table and no others.
func TestDocumentNamesEveryKind(t *testing.T) {
	for _, kind := range []string{"invalid_token", "dedup_disabled", "unknown_header", "retention_limit", "queue_limit", "queue_not_found",
		"spool_not_found", "queue_exists", "queue_deleting", "queue_replaced", "queue_busy", "not_failed", "dedup_in_flight", "dedup_claimed",
		"stale_token", "payload_too_large", "rate_limited", "operation_unconfirmed", "spool_full",
		"node_not_found", "not_a_voter", "node_unreachable", "node_behind", "no_majority_left", "last_voter", "no_successor"} {
		if !strings.Contains(openAPIDocument, kind) {
			t.Errorf("%s is missing", kind)
		}
	}
}

func TestDocumentIsServed(t *testing.T) {
	w := do(newTestServer(t, &fakeBroker{}), "GET", "/openapi.yaml", "", "Authorization", "")
	wantStatus(t, w, 200)
	if w.Body.String() != openAPIDocument || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("%v", w.Header())
	}
}
