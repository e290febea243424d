package connect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// LogUse is something about a read of a log that is counted, under upstream's names.
type LogUse string

// Whether the kubelet's certificate is verified, and that this failed.
const (
	EnforceTLS     LogUse = "enforce_tls"
	SkipTLSAllowed LogUse = "skip_tls_allowed"
	TLSFailure     LogUse = "tls_failure"
)

// log streams a container's log from its kubelet.
func (c *Connector) log(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	o, err := logOptions(name, r.URL.Query())
	if err != nil {
		return err
	}
	use := EnforceTLS
	if o.InsecureSkipTLSVerifyBackend {
		use = SkipTLSAllowed
	}
	c.logs(use)
	pod, err := c.pod(r, namespace, name)
	if err != nil {
		return err
	}
	container, err := chooseContainer(pod, o.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		// Nothing has run, so there is nothing to read; that is no error.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	host, err := c.kubeletOf(r, pod)
	if err != nil {
		return err
	}
	at := url.URL{Scheme: "https", Host: host, RawQuery: logQuery(o).Encode(),
		Path: fmt.Sprintf("/containerLogs/%s/%s/%s", pod.Namespace, pod.Name, container)}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	transport := c.kubelet()
	if o.InsecureSkipTLSVerifyBackend {
		transport = c.trusting
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
			c.logs(TLSFailure)
		}
		return &url.Error{Op: "Get", URL: at.String(), Err: err} // told as it is
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		return kubeletError(response, pod.Name)
	}
	if wsstream.IsWebSocketRequest(r) {
		streamMessages(w, r, response.Body)
		return nil
	}
	stream(w, response.Body, o.Follow)
	return nil
}

// kubeletError passes on why a kubelet refused. As upstream has it, only what is the client's fault or the kubelet's
// own failure comes with the kubelet's words.
func kubeletError(response *http.Response, pod string) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 50000))
	switch response.StatusCode {
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(string(text)))
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(string(text))
	}
	return apierrors.NewGenericServerResponse(response.StatusCode, "", schema.GroupResource{Resource: "pods/log"}, pod,
		string(text), 0, false)
}

// stream copies, and when followed sends on at once what has come.
func stream(w http.ResponseWriter, from io.Reader, follow bool) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	if !follow {
		_, _ = io.Copy(w, from)
		return
	}
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil || flusher.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// logOptions reads and checks the parameters of a read of a pod's log.
func logOptions(pod string, query url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{
		Container: query.Get("container"), Follow: isTrue(query, "follow"), Previous: isTrue(query, "previous"),
		Timestamps:                   isTrue(query, "timestamps"),
		InsecureSkipTLSVerifyBackend: isTrue(query, "insecureSkipTLSVerifyBackend"),
	}
	number := func(name string, into **int64) error {
		values := query[name]
		if len(values) == 0 {
			return nil
		}
		return runtime.Convert_Slice_string_To_Pointer_int64(&values, into, nil)
	}
	moment := func(name string, into **metav1.Time) error {
		values := query[name]
		if len(values) == 0 {
			return nil
		}
		return metav1.Convert_Slice_string_To_Pointer_v1_Time(&values, into, nil)
	}
	for _, err := range []error{
		number("sinceSeconds", &o.SinceSeconds), moment("sinceTime", &o.SinceTime),
		number("tailLines", &o.TailLines), number("limitBytes", &o.LimitBytes),
	} {
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if values := query["stream"]; len(values) > 0 {
		o.Stream = &values[0]
	}
	if errs := validateLog(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, pod, errs)
	}
	return o, nil
}

// validateLog checks the parameters. To choose one of the streams is a feature that is off by default.
func validateLog(o *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines,
			"must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""),
			"at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	if o.Stream != nil {
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	}
	return errs
}

// isTrue reads a boolean parameter: whatever doesn't say no says yes.
func isTrue(query url.Values, name string) bool {
	var yes bool
	if values, given := query[name]; given {
		_ = runtime.Convert_Slice_string_To_bool(&values, &yes, nil) // never fails
	}
	return yes
}

// logQuery is what the kubelet is asked.
func logQuery(o *corev1.PodLogOptions) url.Values {
	q := url.Values{}
	flag := func(name string, on bool) {
		if on {
			q.Set(name, "true")
		}
	}
	flag("follow", o.Follow)
	flag("previous", o.Previous)
	flag("timestamps", o.Timestamps)
	number := func(name string, n *int64) {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	number("tailLines", o.TailLines)
	number("limitBytes", o.LimitBytes)
	number("sinceSeconds", o.SinceSeconds)
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.UTC().Format(time.RFC3339))
	}
	return q
}
