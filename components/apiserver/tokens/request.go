package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

const (
	defaultSeconds = 60 * 60
	minSeconds     = 10 * 60
	maxSeconds     = 1 << 32
	// extendableSeconds is what the admission of service accounts asks for; only such tokens are extended.
	extendableSeconds = 60*60 + 7
	extendedLife      = 365 * 24 * time.Hour
)

// Request answers a create of serviceaccounts/token
// (https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/). The request is not
// changed. admit is asked with what is to be answered, but for the token.
func (t *Tokens) Request(ctx context.Context, namespace, name string, request *authenticationv1.TokenRequest,
	admit func(runtime.Object) error) (*authenticationv1.TokenRequest, error) {
	out := request.DeepCopy()
	if err := named(out, namespace, name); err != nil {
		return nil, err
	}
	if t.cfg.Remote == nil && t.ring.Load().signer == nil {
		return nil, apierrors.NewServiceUnavailable(
			"this API server has no key to sign service account tokens; set --service-account-signing-key-file")
	}
	account, err := objects.As[*corev1.ServiceAccount](
		t.cfg.Objects.Live(ctx, corev1.Resource("serviceaccounts"), namespace, name))
	if err != nil {
		return nil, err
	}
	if out.UID != "" && out.UID != account.UID {
		mismatch := fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)",
			out.UID, account.UID)
		if !t.cfg.AnyUID {
			return nil, apierrors.NewConflict(
				schema.GroupResource{Group: authenticationv1.GroupName, Resource: "TokenRequest"}, name, mismatch)
		}
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/token-request-uid-mismatch", mismatch.Error())
		warning.AddWarning(ctx, "",
			mismatch.Error()+
				" but TokenRequestServiceAccountUIDValidation is not enabled. In the future, this will return a conflict error")
	}
	now := t.cfg.Clock.Now()
	out.Namespace, out.Name, out.UID, out.CreationTimestamp = namespace, name, cmp.Or(out.UID, account.UID),
		metav1.NewTime(now)
	out.Status = authenticationv1.TokenRequestStatus{}
	if len(out.Spec.Audiences) == 0 {
		out.Spec.Audiences = slices.Clone(t.cfg.Audiences)
	}
	if err := check(out); err != nil {
		return nil, err
	}
	if err := admit(out.DeepCopy()); err != nil {
		return nil, err
	}
	b := binding{Namespace: namespace, ServiceAccount: ref{account.Name, string(account.UID)}}
	if err := t.bind(ctx, &b, out.Spec.BoundObjectRef); err != nil {
		return nil, err
	}
	life := t.lifetime(ctx, out, &b, now)
	c := newClaims(t.cfg.Issuers[0], out.Spec.Audiences, b, now, life)
	token, err := t.sign(ctx, c)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	auditIssued(ctx, &c)
	out.Status = authenticationv1.TokenRequestStatus{
		Token:               token,
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(*out.Spec.ExpirationSeconds) * time.Second)),
	}
	return out, nil
}

var requestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind()

// named refuses a request that says that it is for another account than the URL does.
func named(r *authenticationv1.TokenRequest, namespace, name string) error {
	if r.Name != "" && r.Name != name {
		return apierrors.NewInvalid(requestKind, name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "name"), r.Name,
				"must match the service account name if specified")})
	}
	if r.Namespace != "" && r.Namespace != namespace {
		return apierrors.NewInvalid(requestKind, name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "namespace"), r.Namespace,
				"must match the service account namespace if specified")})
	}
	return nil
}

// check sets the default of what is asked for, and refuses what makes no sense.
func check(r *authenticationv1.TokenRequest) error {
	if r.Spec.ExpirationSeconds == nil {
		seconds := int64(defaultSeconds)
		r.Spec.ExpirationSeconds = &seconds
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "expirationSeconds")
	switch seconds := *r.Spec.ExpirationSeconds; {
	case seconds < minSeconds:
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration less than 10 minutes"))
	case seconds > maxSeconds:
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(requestKind, "", errs) // without a name, as upstream
	}
	return nil
}

// lifetime returns how long the token lives. It shortens the request to what is allowed, and notes in b from when on a
// use of an extended token is to be warned of.
func (t *Tokens) lifetime(ctx context.Context, r *authenticationv1.TokenRequest, b *binding,
	now time.Time) time.Duration {
	asked := *r.Spec.ExpirationSeconds
	if most := int64(t.cfg.MaxExpiration / time.Second); most > 0 && asked > most {
		warning.AddWarning(ctx, "",
			fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", asked, most))
		asked = most
		r.Spec.ExpirationSeconds = &asked
	}
	life := time.Duration(asked) * time.Second
	if t.cfg.ExtendExpiration && asked == extendableSeconds && b.Pod != nil && t.own(r.Spec.Audiences) {
		b.WarnAfter = jwt.NewNumericDate(now.Add(life))
		return t.cfg.ExtendedLife
	}
	return life
}

// own reports whether all audiences are this server's.
func (t *Tokens) own(audiences []string) bool {
	for _, a := range audiences {
		if !slices.Contains(t.cfg.Audiences, a) {
			return false
		}
	}
	return true
}

// bind fills in the object with which the token is to end.
func (t *Tokens) bind(ctx context.Context, b *binding, to *authenticationv1.BoundObjectReference) error {
	if to == nil {
		return nil
	}
	var uid string
	gvk := schema.FromAPIVersionAndKind(to.APIVersion, to.Kind)
	if to.APIVersion == "" && to.Kind == "Pod" {
		gvk = corev1.SchemeGroupVersion.WithKind("Pod") // need not say its version
	}
	switch gvk.GroupKind() { // whatever the version is
	case corev1.SchemeGroupVersion.WithKind("Pod").GroupKind():
		pod, err := objects.As[*corev1.Pod](t.existing(ctx, "pods", b.Namespace, to.Name))
		if err != nil {
			return err
		}
		if pod.Spec.ServiceAccountName != b.ServiceAccount.Name {
			return apierrors.NewBadRequest(
				fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.",
					b.ServiceAccount.Name))
		}
		uid = string(pod.UID)
		b.Pod = &ref{pod.Name, uid}
		if b.Node, err = t.nodeOf(ctx, pod.Spec.NodeName); err != nil {
			return err
		}
	case corev1.SchemeGroupVersion.WithKind("Node").GroupKind():
		node, err := objects.As[*corev1.Node](t.existing(ctx, "nodes", "", to.Name))
		if err != nil {
			return err
		}
		uid = string(node.UID)
		b.Node = &ref{node.Name, uid}
	case corev1.SchemeGroupVersion.WithKind("Secret").GroupKind():
		secret, err := objects.As[*corev1.Secret](t.existing(ctx, "secrets", b.Namespace, to.Name))
		if err != nil {
			return err
		}
		uid = string(secret.UID)
		b.Secret = &ref{secret.Name, uid}
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	if to.UID != "" && uid != string(to.UID) {
		return apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, to.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have "+
				"been deleted and then recreated", to.UID))
	}
	return nil
}

// existing returns an object as it is stored now. A name that no object can have is refused as the store's keys would
// be.
func (t *Tokens) existing(ctx context.Context, resource, namespace, name string) (api.Object, error) {
	if name == "" {
		return nil, apierrors.NewBadRequest("Name parameter required.")
	}
	if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		return nil, apierrors.NewBadRequest(
			fmt.Sprintf("Name parameter invalid: %q: %s", name, strings.Join(problems, ";")))
	}
	return t.cfg.Objects.Live(ctx, corev1.Resource(resource), namespace, name)
}

// nodeOf returns the node of a bound pod; a node that is gone has a name, but no uid.
func (t *Tokens) nodeOf(ctx context.Context, name string) (*ref, error) {
	if name == "" {
		return nil, nil
	}
	node, err := objects.As[*corev1.Node](t.lookup(ctx, corev1.Resource("nodes"), "", &ref{Name: name}))
	if apierrors.IsNotFound(err) {
		return &ref{Name: name}, nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &ref{node.Name, string(node.UID)}, nil
}

func (t *Tokens) sign(ctx context.Context, c claims) (string, error) {
	if t.cfg.Remote != nil {
		payload, err := json.Marshal(c)
		if err != nil {
			return "", err
		}
		return t.cfg.Remote.Sign(ctx, payload)
	}
	signer := t.ring.Load().signer
	if signer == nil {
		return "", errors.New("no signing key")
	}
	return jwt.Signed(signer).Claims(c).Serialize()
}
