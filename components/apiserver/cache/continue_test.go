package cache

import (
	"encoding/base64"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestContinueTokens(t *testing.T) {
	const prefix = "/registry/pods/"
	// These tokens are upstream's, of its cache and of its store.
	for start, cached := range map[string]bool{"/a/x": true, "a/x": false} {
		theirs := tokenOf(`{"v":"meta.k8s.io/v1","rv":42,"start":"` + start + `\u0000"}`)
		token, err := decodeContinue(theirs, prefix)
		if err != nil || token.revision != 42 || token.from != prefix+"a/x\x00" {
			t.Fatalf("got %+v, %v", token, err)
		}
		if got := encodeContinue(token.from, prefix, cached, 42); got != theirs {
			t.Errorf("encoded as %s", got)
		}
	}
	for bad, why := range map[string]string{
		"?": "illegal base64 data at input byte 0", "": "unexpected end of JSON input",
		tokenOf(`x`):  "invalid character 'x' looking for beginning of value",
		tokenOf(`{}`): "server does not recognize this encoded version ",
		tokenOf(`{"v":"v9","rv":42,"start":"a"}`): "server does not recognize this encoded version v9",
		tokenOf(`{"v":"meta.k8s.io/v1","rv":1}`):  "encoded start key empty (version meta.k8s.io/v1)",
		tokenOf(`{"v":"meta.k8s.io/v1","start":"a"}`): "incorrect encoded start resourceVersion (version " +
			"meta.k8s.io/v1)",
		tokenOf(`{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets"}`): "../secrets",
		tokenOf(`{"v":"meta.k8s.io/v1","rv":1,"start":"a/../../x"}`):  "a/../../x",
	} {
		_, err := decodeContinue(bad, prefix)
		if !apierrors.IsBadRequest(err) || err.Error() != "invalid continue token: continue key is not valid: "+why {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func tokenOf(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func FuzzContinue(f *testing.F) {
	for _, start := range []string{"a/x\x00", "../x", "/", "a//b", "."} {
		f.Add(tokenOf(`{"v":"meta.k8s.io/v1","rv":7,"start":"` + start + `"}`))
	}
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		const prefix = "/registry/pods/a/"
		token, err := decodeContinue(s, prefix)
		if err != nil {
			return
		}
		if !strings.HasPrefix(token.from, prefix) || token.revision == 0 || strings.Contains(token.from, "/../") {
			t.Fatalf("%q leads to %+v", s, token)
		}
		again, err := decodeContinue(encodeContinue(token.from, prefix, true, token.revision), prefix)
		if err != nil || again != token {
			t.Fatalf("%q: %+v came back as %+v, %v", s, token, again, err)
		}
	})
}
