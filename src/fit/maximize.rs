//! Maximising a smooth function of two parameters, and the errors of the maximum.
//!
//! Nelder–Mead (1965) with the usual coefficients (reflect 1, expand 2, contract ½, shrink ½):
//! no derivatives, and a fixed order of evaluation, so that equal inputs give equal bits.
//! Standard errors come from the inverse of the observed Hessian by central differences.

/// A point of the plane.
pub(super) type Point = [f64; 2];

/// The simplex is small enough when no vertex is further than this from the best one.
const SIMPLEX_SIZE: f64 = 1e-7;
/// A run that has not converged after this many steps is given up.
const MAX_STEPS: u32 = 500;

/// Returns the point where `f` is smallest, searching from `start` with first steps of `step`.
///
/// `None` when the search does not settle. `f` may return infinity, but not at `start`.
pub(super) fn minimize(f: &impl Fn(Point) -> f64, start: Point, step: f64) -> Option<Point> {
    let vertex = |p: Point| (f(p), p);
    let mut simplex =
        [vertex(start), vertex([start[0] + step, start[1]]), vertex([start[0], start[1] + step])];
    for _ in 0..MAX_STEPS {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [best, middle, worst] = simplex;
        let far = |v: Point| (v[0] - best.1[0]).abs().max((v[1] - best.1[1]).abs());
        if far(middle.1).max(far(worst.1)) < SIMPLEX_SIZE {
            return best.0.is_finite().then_some(best.1);
        }
        // The point on the line from the worst vertex through the centre of the other two.
        let along = |t: f64| -> Point {
            let at = |i: usize| {
                let centre = f64::midpoint(best.1[i], middle.1[i]);
                centre + t * (centre - worst.1[i])
            };
            [at(0), at(1)]
        };
        let reflected = vertex(along(1.0));
        if reflected.0 < best.0 {
            let expanded = vertex(along(2.0));
            simplex[2] = if expanded.0 < reflected.0 { expanded } else { reflected };
        } else if reflected.0 < middle.0 {
            simplex[2] = reflected;
        } else {
            let contracted = vertex(along(if reflected.0 < worst.0 { 0.5 } else { -0.5 }));
            if contracted.0 < worst.0.min(reflected.0) {
                simplex[2] = contracted;
            } else {
                let halfway = |v: Point| {
                    vertex([f64::midpoint(v[0], best.1[0]), f64::midpoint(v[1], best.1[1])])
                };
                simplex = [best, halfway(middle.1), halfway(worst.1)];
            }
        }
    }
    None
}

/// Returns the standard errors of a maximum-likelihood estimate `at`, where `f` is the negative
/// log-likelihood and `h` the step of the differences.
///
/// `None` when the Hessian is not positive definite: the data do not fix the parameters.
pub(super) fn standard_errors(f: &impl Fn(Point) -> f64, at: Point, h: f64) -> Option<Point> {
    let g = |i: f64, j: f64| f([at[0] + i * h, at[1] + j * h]);
    let centre = g(0.0, 0.0);
    let square = h * h;
    let xx = (g(1.0, 0.0) - 2.0 * centre + g(-1.0, 0.0)) / square;
    let yy = (g(0.0, 1.0) - 2.0 * centre + g(0.0, -1.0)) / square;
    let xy = (g(1.0, 1.0) - g(1.0, -1.0) - g(-1.0, 1.0) + g(-1.0, -1.0)) / (4.0 * square);
    let determinant = xx * yy - xy * xy;
    let definite = xx > 0.0 && yy > 0.0 && determinant > 0.0;
    definite.then(|| [(yy / determinant).sqrt(), (xx / determinant).sqrt()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bottom_of_a_bent_valley() {
        // Rosenbrock's function; its minimum is at (1, 1).
        let f = |[x, y]: Point| (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2);
        let [x, y] = minimize(&f, [-1.2, 1.0], 0.3).unwrap();
        assert!((x - 1.0).abs() < 1e-5 && (y - 1.0).abs() < 1e-5, "({x}, {y})");
    }

    #[test]
    fn a_function_without_a_bottom_is_given_up() {
        assert_eq!(minimize(&|[x, _]: Point| x, [0.0, 0.0], 1.0), None);
    }

    #[test]
    fn errors_come_from_the_curvature() {
        // f = ½ pᵀ H p with H = [[4, 1], [1, 2]]: covariance H⁻¹ = [[2, −1], [−1, 4]] / 7.
        let f = |[x, y]: Point| 0.5 * (4.0 * x * x + 2.0 * x * y + 2.0 * y * y);
        let [x, y] = standard_errors(&f, [0.0, 0.0], 1e-3).unwrap();
        assert!((x - (2.0f64 / 7.0).sqrt()).abs() < 1e-6);
        assert!((y - (4.0f64 / 7.0).sqrt()).abs() < 1e-6);
        assert_eq!(standard_errors(&|[x, _]: Point| x * x, [0.0, 0.0], 1e-3), None, "flat in y");
    }
}
