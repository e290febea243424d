package resourceclaim

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/utils/ptr"
)

// metrics carry upstream's names.
type metrics struct{ creates *prometheus.CounterVec }

// newMetrics registers the metrics, unless registry is nil.
func newMetrics(registry prometheus.Registerer, claims resourcelisters.ResourceClaimLister) (*metrics, error) {
	m := &metrics{creates: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "resourceclaim_controller_creates_total",
		Help: "Requests to create ResourceClaims, by status (success or failure) and whether they ask for admin access.",
	}, []string{"status", "admin_access"})}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(registry.Register(m.creates), registry.Register(counted{claims}))
}

func (m *metrics) created(claim *resourcev1.ResourceClaim, err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.creates.WithLabelValues(status, strconv.FormatBool(asksAdminAccess(claim))).Inc()
}

// counted counts the claims when it is asked.
type counted struct {
	claims resourcelisters.ResourceClaimLister
}

func countedDesc() *prometheus.Desc {
	return prometheus.NewDesc("resourceclaim_controller_resource_claims",
		"ResourceClaims by whether they are allocated and ask for admin access, and by what they were made from.",
		[]string{"allocated", "admin_access", "source"}, nil)
}

// Describe implements prometheus.Collector.
func (counted) Describe(out chan<- *prometheus.Desc) { out <- countedDesc() }

// Collect implements prometheus.Collector.
func (c counted) Collect(out chan<- prometheus.Metric) {
	all, err := c.claims.List(labels.Everything())
	if err != nil {
		return
	}
	for set, n := range countClaims(all) {
		out <- prometheus.MustNewConstMetric(countedDesc(), prometheus.GaugeValue, float64(n), set[0], set[1], set[2])
	}
}

// countClaims counts claims by the values of the labels.
func countClaims(all []*resourcev1.ResourceClaim) map[[3]string]int {
	counts := map[[3]string]int{}
	for _, claim := range all {
		counts[[3]string{strconv.FormatBool(claim.Status.Allocation != nil), strconv.FormatBool(asksAdminAccess(claim)),
			sourceOf(claim)}]++
	}
	return counts
}

func sourceOf(claim *resourcev1.ResourceClaim) string {
	switch {
	case claim.Annotations[podClaimAnnotation] != "":
		return "resource_claim_template"
	case claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true":
		return "extended_resource"
	}
	return ""
}

func asksAdminAccess(claim *resourcev1.ResourceClaim) bool {
	for i := range claim.Spec.Devices.Requests {
		if exactly := claim.Spec.Devices.Requests[i].Exactly; exactly != nil && ptr.Deref(exactly.AdminAccess, false) {
			return true
		}
	}
	return false
}
