//go:build race

package httpapi

import (
	"net/http"
	"net/http/httptest"
)

func holdAgainstDocument(*http.Request, *httptest.ResponseRecorder) error { return nil }
