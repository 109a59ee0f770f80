package fieldname_test

import (
	"testing"

	"cloister/internal/fieldname"
)

func TestSame(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"X-Tenant", "x-tenant", true},
		{"X-Tenant", "X_TENANT", true},
		{"x_http-method_override", "X-HTTP-Method-Override", true},
		{"X-Tenant", "X-Tenants", false},
		{"X-Tenant", "XxTenant", false},
		{"X[", "x{", false},
		{"", "", true},
	} {
		if got := fieldname.Same(tt.a, tt.b); got != tt.want {
			t.Errorf("Same(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}
