package answer

import (
	"context"
	"errors"
	"net/http"
)

// Passed answers a request that was passed on to another server, which didn't answer it. It implements
// proxy.ErrorResponder.
type Passed struct {
	// Request is as it came in: what is passed on may have a deadline of its own, which the client knows nothing of.
	Request *http.Request
}

// Error answers with a Status if the time of the request is over, as if it had been served here, and else in plain
// words.
func (p Passed) Error(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(p.Request.Context().Err(), context.DeadlineExceeded) {
		Error(w, p.Request, err)
		return
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
