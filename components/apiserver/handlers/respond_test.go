package handlers

import (
	"errors"
	"io"
	"net/http/httptest"
	"testing"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// TestSendZipped: what fails before anything was sent is told; what fails later cuts the connection, as the answer has
// begun.
func TestSendZipped(t *testing.T) {
	failure := errors.New("an object can't be converted")
	for name, begins := range map[string]bool{"before": false, "later": true} {
		w := httptest.NewRecorder()
		var err error
		cut := func() (p any) {
			defer func() { p = recover() }()
			err = (&responder{exchange: &exchange{w: w}}).sendZipped(func(out io.Writer) error {
				if begins {
					_, _ = out.Write([]byte("{"))
				}
				return failure
			})
			return nil
		}()
		zipped := w.Header().Get("Content-Encoding") != ""
		if zipped != begins || begins && cut != answer.Cut || !begins && err != failure {
			t.Errorf("%s: got %v, %v, compressed %v", name, err, cut, zipped)
		}
	}
}

// TestZips: answers are compressed for clients that name gzip, and for none that say when they like it better than
// other codings, or not at all.
func TestZips(t *testing.T) {
	for header, want := range map[string]bool{
		"gzip": true, "deflate, gzip": true, " gzip ,br": true, "": false, "br": false, "gzip;q=0": false,
		"gzip;q=0.5, br": false, "xgzip": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header.Set("Accept-Encoding", header)
		if got := (&responder{exchange: &exchange{r: r, api: &API{}}}).zips(); got != want {
			t.Errorf("%q: got %v", header, got)
		}
	}
}
