package apiserver

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
)

// onlyGet serves by one method what has but one form; "" is whatever it may be.
func onlyGet(media string, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			const code = http.StatusMethodNotAllowed
			answer.Error(w, r, apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false))
			return
		}
		if accept := r.Header.Get("Accept"); accept != "" && media != "" && !negotiate.Named(accept, media, "*/*") {
			answer.Error(w, r, negotiate.NotAvailable(media))
			return
		}
		h(w, r)
	})
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
