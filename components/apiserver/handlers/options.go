package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/cache"
)

// readQuery decodes the parameters of a request into one of the option types of meta/v1, with the converter that
// apimachinery has for it.
func readQuery[T any](c *call, convert func(*url.Values, *T) error) (*T, error) {
	out := new(T)
	if c.r.URL.RawQuery == "" {
		return out, nil
	}
	query := c.r.URL.Query()
	if err := convert(&query, out); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

func (c *call) createOptions() (*metav1.CreateOptions, error) {
	o, err := readQuery(c, func(q *url.Values, o *metav1.CreateOptions) error {
		return metav1.Convert_url_Values_To_v1_CreateOptions(q, o, nil)
	})
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}
	return o, invalidOptions("CreateOptions", validation.ValidateCreateOptions(o))
}

func (c *call) updateOptions() (*metav1.UpdateOptions, error) {
	o, err := readQuery(c, func(q *url.Values, o *metav1.UpdateOptions) error {
		return metav1.Convert_url_Values_To_v1_UpdateOptions(q, o, nil)
	})
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"}
	return o, invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(o))
}

// managerName is the field manager of a write: the one that the request names, or the client's program.
func managerName(r *http.Request, given string) string {
	if given != "" {
		return given
	}
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	var out strings.Builder
	for _, char := range agent {
		if !unicode.IsPrint(char) {
			continue
		}
		if out.Len()+utf8.RuneLen(char) > validation.FieldManagerMaxLength {
			break
		}
		out.WriteRune(char)
	}
	return out.String()
}

// listOptions reads and checks the options of list, watch and deletecollection, and makes a predicate of the selectors.
func (c *call) listOptions() (*metav1.ListOptions, cache.Predicate, error) {
	o, err := readQuery(c, func(q *url.Values, o *metav1.ListOptions) error {
		return metav1.Convert_url_Values_To_v1_ListOptions(q, o, nil)
	})
	if err != nil {
		return nil, cache.Predicate{}, err
	}
	internal := internalversion.ListOptions{
		Watch: o.Watch, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
	}
	watchList := !c.api.config.NoWatchList
	internalversion.SetListOptionsDefaults(&internal, watchList)
	o.SendInitialEvents = internal.SendInitialEvents
	if err := invalidOptions("ListOptions",
		metainternalvalidation.ValidateListOptions(&internal, watchList)); err != nil {
		return nil, cache.Predicate{}, err
	}
	p, err := c.predicate(o)
	return o, p, err
}
