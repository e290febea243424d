package metricsserver

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/internal/zpages"
)

// form is how an answer is written
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources).
type form struct {
	info runtime.SerializerInfo
	// table is the version of meta.k8s.io in which a Table is wanted; "" for the objects.
	table string
}

// forms are JSON, YAML and protobuf. Their encoders work on any type that has its kind.
func forms() []runtime.SerializerInfo { return scheme.Codecs.SupportedMediaTypes() }

// negotiate finds the form that the client prefers.
func negotiate(r *http.Request) (form, error) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return form{info: forms()[0]}, nil
	}
	var offered []string
	for _, clause := range goautoneg.ParseAccept(accept) {
		offered = append(offered, clause.Type+"/"+clause.SubType)
		for _, info := range forms() {
			if clause.Type != "*" && clause.Type != info.MediaTypeType ||
				clause.SubType != "*" && clause.SubType != info.MediaTypeSubType {
				continue
			}
			as, version := clause.Params["as"], clause.Params["v"]
			switch {
			case as == "":
				return form{info: info}, nil
			case as == "Table" && clause.Params["g"] == metav1.GroupName && (version == "v1" || version == "v1beta1") &&
				info.MediaType != runtime.ContentTypeProtobuf:
				return form{info, version}, nil
			}
		}
	}
	return form{}, notAcceptable(offered)
}

func notAcceptable(offered []string) error {
	var served []string
	for _, info := range forms() {
		served = append(served, info.MediaType)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join(served, ", ") + "; asked for " +
			strings.Join(offered, ", "),
	}}
}

// answer writes an object that has its kind.
func (f form) answer(w http.ResponseWriter, r *http.Request, code int, object runtime.Object) {
	if f.table != "" {
		printed, err := tableOf(object, f.table, r.URL.Query().Get("includeObject"))
		if err != nil {
			answerError(w, r, err)
			return
		}
		object = printed
	}
	encoder := f.info.Serializer
	if f.info.PrettySerializer != nil && zpages.Indented(r) {
		encoder = f.info.PrettySerializer
	}
	var body bytes.Buffer
	if err := encoder.Encode(object, &body); err != nil {
		klog.FromContext(r.Context()).Error(err, "Failed to encode answer", "path", r.URL.Path)
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", f.info.MediaType)
	w.Header().Add("Vary", "Accept")
	w.Header().Add("Vary", "Accept-Encoding")
	if body.Len() < leastCompressed || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(code)
		_, _ = w.Write(body.Bytes()) // a client that went away is no error of ours
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(code)
	compressed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
	_, _ = compressed.Write(body.Bytes())
	_ = compressed.Close()
}

// leastCompressed is from how many bytes on answers are compressed.
const leastCompressed = 128 << 10

// answerError writes a Status, as JSON if the client accepts no other form.
func answerError(w http.ResponseWriter, r *http.Request, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	as, err := negotiate(r)
	if err != nil {
		as = form{info: forms()[0]}
	}
	as.table = ""
	as.answer(w, r, int(status.Code), &status)
}
