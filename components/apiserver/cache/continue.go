package cache

import (
	"encoding/base64"
	"encoding/json"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// token is a continue token: where a list goes on, and at which revision. Its form is upstream's, so that a list may
// begin at one API server and end at another.
type token struct {
	from     string // whole key
	revision int64  // negative: whatever is newest
}

type tokenJSON struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

// encodeContinue makes the token for a list below prefix to go on at key.
func encodeContinue(key, prefix string, revision int64) string {
	out, err := json.Marshal(tokenJSON{tokenVersion, revision, strings.TrimPrefix(key, prefix)})
	if err != nil {
		panic(err) // two strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(out)
}

// decodeContinue reads a token, and takes care that it leads nowhere but below prefix.
func decodeContinue(s, prefix string) (token, error) {
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return token{}, errBadContinue("it is not base64")
	}
	var t tokenJSON
	if err := json.Unmarshal(data, &t); err != nil {
		return token{}, errBadContinue("it is not JSON")
	}
	switch {
	case t.Version != tokenVersion:
		return token{}, errBadContinue("this server doesn't know its version")
	case t.Revision == 0:
		return token{}, errBadContinue("it has no revision")
	case t.Start == "" || t.Start == "/":
		return token{}, errBadContinue("it has no start key")
	}
	key := "/" + strings.TrimPrefix(t.Start, "/")
	if path.Clean(key) != key {
		return token{}, errBadContinue("its start key is not one of this list")
	}
	return token{from: prefix + key[1:], revision: t.Revision}, nil
}

func errBadContinue(why string) error {
	return apierrors.NewBadRequest("continue key is not valid: " + why + "; start a new list without it")
}

// errContinueExpired carries a token with which the rest of the list can be had, though not consistently.
func errContinueExpired(from, prefix string) error {
	err := apierrors.NewResourceExpired("The continue parameter is too old for a consistent list. Start a new list without it, " +
		"or use the continue token in this answer to get the rest as it is now: what changed since the first page may then be seen, or missed.")
	err.ErrStatus.ListMeta.Continue = encodeContinue(from, prefix, -1)
	return err
}
