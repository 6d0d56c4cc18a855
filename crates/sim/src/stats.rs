//! Means over repetitions, with 95 % confidence intervals.

/// A mean and half the width of its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the interval's width by Student's distribution; `None` from a
    /// single run.
    pub half_width: Option<f64>,
    /// Runs.
    pub count: usize,
}

impl Estimate {
    /// Of these values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let half_width = (count > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            student_95(count - 1) * (squares / (count - 1) as f64 / count as f64).sqrt()
        });
        Some(Self {
            mean,
            half_width,
            count,
        })
    }
}

/// Two-sided 95 % quantile of Student's distribution. Beyond 30 degrees of
/// freedom by the first terms of its expansion in 1/n around the normal one,
/// right to three places.
fn student_95(degrees_of_freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    let n = degrees_of_freedom.max(1);
    TABLE
        .get(n - 1)
        .copied()
        .unwrap_or_else(|| 1.959_964 + 2.372_3 / n as f64 + 2.82 / (n * n) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_values_have_the_interval_of_the_text_books() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((estimate.mean, estimate.count), (2.0, 3));
        // 4.303 · 1/√3
        assert!((estimate.half_width.unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!(Estimate::of(&[5.0]).unwrap().half_width, None);
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn the_expansion_continues_the_table() {
        assert!((student_95(40) - 2.021).abs() < 1e-3);
        assert!((student_95(120) - 1.980).abs() < 1e-3);
    }
}
